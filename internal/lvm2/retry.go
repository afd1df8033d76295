package lvm2

import "time"

const (
	retryTriesMax = 500
	retryInterval = 2 * time.Millisecond // 1 s in total
)

// retryBriefly calls f until it reports that it is done. It is for resources that others hold
// briefly without notification. It returns the last error.
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
