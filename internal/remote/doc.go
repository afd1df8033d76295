// Package remote lets a component talk to a real API server, wherever that is.
//
// A [Connection] gives a component what package fake gives it in a world that is whole: a client of which each request
// leaves the component, and views that the component's own strands move, one event at a time. So the same code runs here
// and there, and what cannot be interrupted there cannot be here.
//
// Requests are client-go's own; a transport below makes a Call of each (transport.go): the whole answer is read before the
// strand goes on, and a server that asks for patience is waited for outside the component. What a view is told comes from
// client-go's reflector, which lists, watches, waits and lists again (feed.go). It runs on a goroutine of its own and puts
// what it hears into a short list, from which the component takes it in when its turn comes.
//
// A [MetadataWatcher] tells of the objects of all resources, for the garbage collector and for namespaces (survey.go); what is served
// it finds out by itself (discover.go).
//
// The host must be live: a real server does not wait to be asked.
//
// Not here: strands that watch or stream by themselves, and clients that make requests on goroutines of their own, as
// client-go's discovery does. Their requests would not be their strand's.
package remote
