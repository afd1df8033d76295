package loop_test

import (
	"fmt"
	"testing"
)

func BenchmarkLifecycle(b *testing.B) {
	w := newWorld(b)
	for i := range b.N {
		id := w.create(fmt.Sprintf("benchmark %d", i))
		device, err := w.attach(id, "one")
		w.must(err)
		w.must(w.stage(id, "one", device))
		w.must(w.publish(id, "one", false))
		w.must(w.unpublish(id, "one"))
		w.must(w.unstage(id, "one"))
		w.must(w.detach(id, "one"))
		w.must(w.delete(id))
	}
}

func BenchmarkAttachDetach(b *testing.B) {
	w := newWorld(b)
	id := w.create("benchmark")
	for range b.N {
		_, err := w.attach(id, "one")
		w.must(err)
		w.must(w.detach(id, "one"))
	}
}

func BenchmarkStageFormatted(b *testing.B) {
	w := newWorld(b)
	id := w.create("benchmark")
	device, err := w.attach(id, "one")
	w.must(err)
	for range b.N {
		w.must(w.stage(id, "one", device))
		w.must(w.unstage(id, "one"))
	}
}
