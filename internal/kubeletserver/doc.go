// Package kubeletserver is the part of a kubelet's HTTP server that concerns containers: their logs, commands that are
// executed in them, and connections with their own commands.
//
//	mux := http.NewServeMux()
//	kubeletserver.Register(mux, host) // host finds pods, and has the container.Runtime of the node
//
//	GET /containerLogs/NAMESPACE/POD/CONTAINER?follow=true&tailLines=10
//	GET /exec/NAMESPACE/POD/CONTAINER?command=ls&output=1&error=1 (a WebSocket)
//	POST /attach/NAMESPACE/POD/CONTAINER?input=1&output=1 (a connection by SPDY)
//
// The API server asks it for pods/log, pods/exec and pods/attach (package fake/apiserver). A request is answered on its own
// goroutine, which may block; it is not a task of the kubelet. Output is read as it is written, without polling. A client
// that disconnects ends the command that it has executed.
//
// Commands are executed by WebSocket (v5.channel.k8s.io, v4.channel.k8s.io) and by SPDY (v4.channel.k8s.io to
// v2.channel.k8s.io), which clients used before 1.31.
//
// Limits: sizes of terminals are ignored. There is no port-forward, run or checkpoint.
//
// Upstream: pkg/kubelet/server (v1.36).
package kubeletserver
