// Package view is what one component has seen of one resource: a [Informer] is a cache.SharedIndexInformer that moves only when
// it is told to. Whoever has the changes (the log of package fake, the watch of package remote) gives them to it one at a
// time, in the monitor of the component, so that a strand never sees a lister change between two lines of its own.
//
// A view keeps its objects in the order of their keys, where client-go's informers have none, so that who walks over a
// lister walks the same way each time.
package informercache
