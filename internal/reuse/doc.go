// Package reuse keeps the memory of worlds that have ended for the next world.
//
//	m := &reuse.Memory{}
//	q := reuse.New[queue](m)            // zero
//	waiting := reuse.Map[string, int](m) // empty
//	m.Rewind()                          // the world has ended: the next one gets q and waiting, emptied
//
// A search creates thousands of worlds that differ only in the schedule. Each of them needs the same
// structs and maps, in the same order. The n-th value of a type in one world is therefore the n-th in the
// next: its maps and slices have the right size already, and its functions are bound.
//
// Values are emptied when they are handed out again, so nothing of a world is seen in the next one. The
// caller empties what it gets from Get, in one function with the declaration of the type.
//
// # What it does not do
//
// It does not know whether a world that has ended is still in use. Live worlds have no Memory: all
// functions then allocate.
package reuse
