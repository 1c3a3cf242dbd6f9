// Generated code and what uses it: until the API is published as a module of this name, it lives here.
module numaloc.io/api

go 1.25.0

require (
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
)
