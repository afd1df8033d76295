package workload

// SlowStart calls create so many times, in batches of 1, 2, 4 and so on. It finishes the batch in which a
// call fails, and starts no other. It returns the number of calls that succeeded, and the first error.
//
// Differs: the calls of a batch are made one after the other. Upstream makes them at once.
//
// Upstream: pkg/controller/replicaset slowStartBatch, pkg/controller SlowStartInitialBatchSize (v1.36).
func SlowStart(count int, create func() error) (succeeded int, err error) {
	for batch := 1; count > 0 && err == nil; batch *= 2 {
		batch = min(batch, count)
		for range batch {
			switch failure := create(); {
			case failure == nil:
				succeeded++
			case err == nil:
				err = failure
			}
		}
		count -= batch
	}
	return succeeded, err
}
