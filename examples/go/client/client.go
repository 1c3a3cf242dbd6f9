// Package client is a client of numalocd: connections, errors, calls that are repeated, and watches that continue where they broke.
// docs/clients.md of the repository has the rules that it keeps.
package client

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Connect returns a connection for all calls to the daemon at an endpoint such as unix:///run/numaloc/numalocd.sock.
func Connect(endpoint string) (*grpc.ClientConn, error) {
	// A socket's path makes no valid :authority.
	return grpc.NewClient(endpoint, grpc.WithAuthority("localhost"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
}
