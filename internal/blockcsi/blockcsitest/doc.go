// Package blockcsitest tests that a driver of package blockcsi keeps the data of its volumes.
//
//	func TestData(t *testing.T) {
//		blockcsitest.TestData(t, blockcsitest.Config{
//			Open: open, Close: removeAll, Nodes: []string{"one", "two"},
//		})
//	}
//
// Volumes are moved between nodes, grown and copied, and the driver is killed meanwhile. A test
// package describes its driver by a [Config] and calls [TestData] and [TestKilled]. TestKilled
// needs a driver that reports its steps to Open's onStep.
//
// Limits: the tests need root on Linux and real devices. On other systems the package is empty.
package blockcsitest
