// Package rest is the way into the API server by requests and responses of HTTP: [NewHandler] serves them, and
// [NewConfig] gives a config of client-go whose transport calls the handler in memory.
//
// One path leads from a request to an answer: the path names a resource and a verb (path.go), headers and query are
// negotiated and decoded (negotiate.go, options.go), the body is decoded (decode.go), the [fake.ResourceClient] acts, and
// what it returns is encoded (encode.go). Nothing here knows a resource by name, but for the doors to a pod's process.
// The answer is a value; the handler writes it to a connection, the transport hands it back. A watch's answer holds a
// cursor, from which events are pulled when somebody reads.
//
// In memory everything runs on the goroutine of whoever makes the request: code that has its client from NewConfig is
// suspended by a stepped host at each request, and is unwound by it through the client.
//
// # What it does not do
//
//   - Authentication, authorization, audit, priority and fairness: that is for whoever serves the handler.
//   - Logs, exec, attach, port-forward and proxy: refused. Watches over websockets.
//   - CBOR: refused, as the real server does unless told otherwise.
//   - Discovery does not hold the hashes of storage versions.
//
// Where it does something otherwise than the real server, the place says so in a line that begins with "Differs:".
package apiserver
