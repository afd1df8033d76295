package lvm2

import "time"

const (
	retryTriesMax = 500
	retryInterval = 2 * time.Millisecond // 1 s in all
)

// retryBriefly calls f until it says that it is done, for who holds something for a
// moment only, and says nothing when it lets go. It returns what f said last.
func retryBriefly(stop <-chan struct{}, f func() (done bool, err error)) error {
	ticker := time.NewTicker(retryInterval)
	defer ticker.Stop()
	for try := 1; ; try++ {
		done, err := f()
		if done || try == retryTriesMax {
			return err
		}
		select {
		case <-stop:
			return err
		case <-ticker.C:
		}
	}
}
