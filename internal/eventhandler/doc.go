// Package eventhandler delivers an informer's events for objects that are identified by UID.
//
//	eventhandler.Add(pods, func(old, pod *corev1.Pod) {
//		… // old is nil if pod is new
//	}, func(pod *corev1.Pod) {
//		… // pod was deleted, or replaced by another of its name
//	})
//
// An informer identifies objects by name. After a relist it may report a deleted and recreated
// object as an update, and a deletion as a DeletedFinalStateUnknown. Controllers that keep state
// for each object must not confuse the two objects. [Add] reports a deletion and an addition
// instead.
//
// # What it does not do
//
// It keeps no state and has no queue: the handlers run on the informer's goroutine.
//
// Upstream: client-go tools/cache ResourceEventHandler.
package eventhandler
