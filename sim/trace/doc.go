// Package trace is the record of everything that happened in a world.
//
// One [Record] stands for one action: an API request, a driver call, a delivery to a cache, a piece of work taken up,
// a timer, a sleep. Records are appended to a [Log] in the order in which the actions took effect. The text form of a
// log is one line a record and parses back; under the stepped host the same choices give the same text, byte for byte.
//
// A record of an API write keeps the object before and after it (both immutable), so that what the write meant can be
// told in words when somebody looks, and costs nothing when nobody does.
//
// Not here: pictures of a trace, and replaying one. The log keeps every record; who wants less sets a limit.
package trace
