// Package capdiff compares how our provisioner publishes the free capacity of a driver with upstream's,
// external-provisioner 6.3.0 pkg/capacity. Its tests draw histories, execute each in two worlds, and
// compare the worlds.
//
// A history is a list of steps about a few classes and nodes, and one driver. Classes come and go, of the
// driver and of another one, with delayed and immediate binding. Nodes get labels and lose them; the driver
// is registered on them with various topology keys. Its free capacity depends on the parameters of a class
// and on the segment; some segments have a maximum volume size, and sometimes it does not answer. Users
// change, delete and create CSIStorageCapacity objects. The controllers restart, and one kind of their
// requests may fail for a while.
//
// After each step, which takes 100 s, the CSIStorageCapacity objects must be the same, but for their
// names: class, topology, capacity, maximum volume size, labels and owners, those of users too.
//
// What it does not do: no volumes are provisioned, so capacities are refreshed by the period and by changes of
// classes and segments only. The driver has at least one topology key. Which of two equal objects is kept is not
// compared, since upstream keeps any.
package capdiff
