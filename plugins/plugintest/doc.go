// Package plugintest checks that a plugin keeps what the contracts of package plugins promise: [Check] runs the plugin in worlds
// of whoever wrote it, and returns an error that names each promise that it broke. It is to a plugin what testing/fstest.TestFS
// is to a file system.
//
// What is checked: names are qualified, stable and distinct; only volumes of the plugin's kind are supported; odd volumes make
// nothing panic; what is given is not changed. Attaching, mounting for a node, mounting for a pod and making a volume can each
// be done twice, undone, undone twice, done again, and undone when nothing was done. What a plugin sees of an attachment is what
// is. Two pods, two volumes and two nodes do not disturb one another. What is in use stays when it cannot be mounted anew. Measuring
// changes nothing. A recycled volume is there and empty, and is touched by
// nobody who may not.
//
// In a stepped world each of these is besides made to fail at each of its calls in each way, cut off at each step by the end of
// its process, and begun when its context has ended. An error that is final or transient must have left nothing; after whatever
// happened it must be possible to do it again, and to undo it, so that nothing is left.
//
// What is not checked: the content of volumes, events and messages, and whether a plugin is right to refuse.
package plugintest
