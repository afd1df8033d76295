package plugins_test

import (
	"fmt"
	"testing"

	"github.com/volsim/volsim/plugins"
)

// BenchmarkFindBySpec looks up one of ten plugins on all processors while plugins are added and
// removed.
func BenchmarkFindBySpec(b *testing.B) {
	for _, changes := range []bool{false, true} {
		b.Run(map[bool]string{false: "quiet", true: "changing"}[changes], func(b *testing.B) {
			var m plugins.Manager
			for i := range 10 {
				if err := m.Register(named{fmt.Sprintf("x/p%d", i), []string{fmt.Sprint(i)}}); err != nil {
					b.Fatal(err)
				}
			}
			stop, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				for changes {
					_ = m.Put(named{"x/dynamic", nil})
					m.Remove("x/dynamic")
					select {
					case <-stop:
						return
					default:
					}
				}
			}()
			spec := volume("7")
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := m.FindBySpec(spec); err != nil {
						b.Error(err)
					}
				}
			})
			close(stop)
			<-stopped
		})
	}
}
