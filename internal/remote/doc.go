// Package remote connects a process to a real API server.
//
//	conn, err := remote.New(restConfig, process)
//	serviceaccount.New(serviceaccount.Config{
//		Process: process, Client: conn.Client(), Informers: conn.Informers(),
//	})
//	go conn.Run(ctx)
//	host.Start()
//
// A [Connection] replaces what package fake provides in a simulation: a client whose requests leave
// the process, and informers whose caches change one event at a time. So the same controller code
// runs in both. What is atomic in a simulation is atomic here too.
//
// Requests are client-go's own. A transport makes each one a Call of the process (transport.go).
// The whole answer is read before the task continues. If the server asks to retry later, the task
// waits outside of the process. Caches are filled by client-go's reflector (feed.go). It runs on
// its own goroutine, and sends notifications to a bounded channel, from which the process applies
// them one by one.
//
// A [MetadataWatcher] watches the metadata of all resources, for the garbage collector and the
// namespace controller (metadatawatcher.go). It discovers the resources itself (discover.go).
//
// # What it does not do
//
//   - A stepped host: the host must be live, since a real server runs in real time.
//   - Tasks that watch or stream, and clients that make requests on goroutines of their own, as
//     client-go's discovery client does.
//
// Upstream: client-go rest, tools/cache Reflector.
package remote
