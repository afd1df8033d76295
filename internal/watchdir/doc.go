// Package watchdir keeps a process in line with the entries of a watched directory, such as sockets
// or programs.
//
//	q := watchdir.NewQueue(watchdir.Config[state]{
//		Process: process, Name: "plugin sockets", Verb: "plugin",
//		Scan: scan, Sync: syncOne, Keep: keep,
//	})
//	q.Notify("disk.sock") // the entry may have appeared, disappeared or changed
//	err := watchdir.Watch(ctx, "plugin sockets", begin, onEvent)
//
// A [Queue] receives the names of entries that may have changed, in any order and from any
// goroutine. It synchronizes each of them in a task of its own, one run after another: an entry
// that hangs delays only itself. A run reads what exists by then, so the order of notifications
// does not matter. A failed run is retried with exponential back-off. There are at most 1000
// pending names; beyond that everything is scanned.
//
// [Watch] turns the events of a file system into notifications, and begins again whenever it may
// have missed some.
//
// What it does not do: list the directory and interpret its entries, which the callbacks do.
//
// Upstream: the mechanism of pkg/kubelet/pluginmanager and of pkg/volume/flexvolume probe.go.
package watchdir
