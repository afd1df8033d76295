// Package garbagecollector deletes what nobody owns any more.
//
// It keeps a graph of the objects that own others and of those that are owned, as far as it has seen them. Where something
// in it changes, it asks the server how the object and its owners are, and then writes: an object whose owners are all
// gone is deleted; one that keeps an owner loses its references to those that are gone, or that wait for it to go; an
// owner that waits for its dependents loses the finalizer foregroundDeletion when none is left that blocks it; one whose
// dependents are to outlive it loses the finalizer orphan when they have forgotten it.
//
// No deletion is decided from the graph alone, and each presumes the object's UID and, at first, its resourceVersion. An
// owner that the controller has not seen is in the graph all the same, by what its dependents say of it: a virtual one. It
// is asked for, and either comes into sight or counts as absent.
//
// What owns nothing and is owned by nobody is not in the graph, and costs nothing.
//
// Not here: the debugging view of the graph.
//
// Upstream: pkg/controller/garbagecollector (v1.36.3).
package garbagecollector
