// Package informercache is a process's cache of one resource: a cache.SharedIndexInformer without a
// goroutine.
//
//	pods := informercache.New("pods")
//	pods.AddEventHandler(handler)
//	pods.Replace(list, "7")                      // the first list
//	pods.Put("default/web", pod, "8", true)      // an event of a watch
//	pods.Remove("default/web", pod, "9", true)   // another one
//
// Changes come from outside, such as the log of package fake or the watch of package remote. They
// are applied one at a time, in the process's monitor. So a task never sees a lister change between
// two of its statements.
//
// The cache is sorted by key, where client-go's informers have no order. So iterating over a lister
// is deterministic.
//
// # What it does not do
//
// It does not list or watch, and there is no resync.
//
// Upstream: client-go tools/cache.
package informercache
