// Package blockcsitest checks that a driver of package blockcsi keeps the data of
// its volumes: while they move between nodes, grow, are copied, and while the
// driver is killed.
//
// A test package says how its driver is made (a [Config]) and calls [TestData] and,
// where the driver tells of its steps, [TestKilled], for which its TestMain is [Main].
// All of it needs root on Linux, and real devices; elsewhere there is nothing here.
package blockcsitest
