// Package api is the API of numalocd in Go: messages and services in numaloc/v1, which are generated from proto/numaloc/v1 of the repository, and in
// client what a client does with them. "go generate ./..." writes numaloc/v1; it needs protoc, or another program in the variable PROTOC.
package api

//go:generate ./generate
