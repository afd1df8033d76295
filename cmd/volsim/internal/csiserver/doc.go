// Package csiserver serves the services of a CSI driver on a unix socket, for a kubelet and
// sidecars.
//
//	server, err := csiserver.Listen(ctx, "/run/csi/csi.sock", register, grpc.UnaryInterceptor(calls.Observe))
//	server.Serve()
//	...
//	err = server.Stop(30 * time.Second)
//
// A [Server] owns one socket. While it checks for a server on an existing socket, it locks the
// directory. A socket without a server is the remnant of a killed process and is replaced. A socket
// with a server is an error. [LockDir] locks a driver's state directory against a second process. It
// locks a file in it, so the directory may contain sockets too. Both are kernel locks, so a killed
// process leaves no lock behind. No lock is waited for without a limit.
//
// A [CallObserver] logs each call and records Prometheus metrics. Requests are logged only at debug
// level, with secrets redacted.
package csiserver
