package lvm2

import "time"

const (
	outwaitTries    = 500
	outwaitInterval = 2 * time.Millisecond // 1 s in all
)

// outwait calls f until it says that it is done, for who holds something for a
// moment only, and says nothing when it lets go. It returns what f said last.
func outwait(stop <-chan struct{}, f func() (done bool, err error)) error {
	ticker := time.NewTicker(outwaitInterval)
	defer ticker.Stop()
	for try := 1; ; try++ {
		done, err := f()
		if done || try == outwaitTries {
			return err
		}
		select {
		case <-stop:
			return err
		case <-ticker.C:
		}
	}
}
