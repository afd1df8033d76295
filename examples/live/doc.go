// Package live runs the clusters of the lessons that use devices of this machine.
//
//	c := live.Start(cluster.Loop)
//	defer c.Close()
//	c.Do("apply "+manifest, "wait pod web Running")
//	c.Shell("findmnt " + c.Mount("web", "data"))
//
// Its methods panic on errors, so that a lesson needs no error handling and its deferred calls
// run.
package live
