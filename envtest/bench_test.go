package envtest_test

import (
	"testing"

	"github.com/volsim/volsim/envtest"
)

// BenchmarkStart measures what a suite waits for before its first test: a cluster of two nodes
// whose components run, and a definition.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		e := &envtest.Environment{CRDDirectoryPaths: []string{"testdata/crd"}, ErrorIfCRDPathMissing: true}
		if _, err := e.Start(); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := e.Stop(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
