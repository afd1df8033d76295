// Package rundir records which process uses a directory, so that a later process can remove what a
// killed one left in it.
//
//	dir, err := rundir.Lock("/var/tmp/volumes")
//	if err != nil {
//		return err // a running process uses it
//	}
//	if earlier := dir.Earlier(); earlier != nil {
//		// remove earlier.Paths, and the devices and mounts below them
//	}
//	err = dir.Record(rundir.Run{Devices: "loop", Paths: []string{"volumes"}})
//	// create volumes
//	err = dir.Release()
//
// The record is the file volsim-run.json in the directory. It is complete and on the disk before
// its process creates anything else there. It names the process by its number, its start and the
// boot of the machine, so a later process with the same number is not confused with it. While the
// process runs, it also holds a lock on the file. The lock decides between processes that start at
// the same time, and between those that do not see each other's numbers, as in containers.
//
// Only a record of the same user counts. A directory with a record that cannot be read is refused.
//
// Limits: on systems other than Linux no directory can be locked.
package rundir
