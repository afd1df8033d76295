// Package filelock locks files and directories against other processes of this machine.
//
//	file, err := os.Open("/run/csi")
//	if err != nil {
//		return err
//	}
//	defer file.Close() // also unlocks
//	ctx, cancel := context.WithTimeout(ctx, time.Second)
//	defer cancel()
//	err = filelock.Lock(ctx, file)
//
// The locks are those of flock(2). They belong to the open file, so a killed process leaves none
// behind, and two locks of one process exclude each other too. A lock that cannot be taken is an
// error that names the process that holds it, if /proc/locks shows it.
//
// Limits: the locks are advisory. In a container, the holder is unknown if it runs outside.
package filelock
