// Package modifydiff compares how our resizer modifies volumes with upstream's, external-resizer 2.3.0
// pkg/modifycontroller with pkg/modifier. Its tests draw histories, execute each in two worlds, and compare
// the worlds.
//
// A history is a list of steps about two claims, three VolumeAttributesClasses, and one driver. Claims request
// a class from the beginning, change it, roll back, and are deleted. Classes come and go. The driver answers
// with an error, before or after its effect. Volumes have a secret that may be missing. The controllers
// restart, and one kind of their requests may fail for a while.
//
// After each step, which takes longer than the delay of an infeasible modification, these must be the same:
// the classes in claims and volumes, the state and the conditions of modifications, what the driver has
// applied, and the set of events.
//
// What it does not do: times are not compared, nor is the number of attempts. Claims are bound by users.
package modifydiff
