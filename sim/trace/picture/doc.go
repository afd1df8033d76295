// Package picture draws what happened: from the records of a run it makes pictures, as SVG, as Mermaid and as plain text.
//
// There are four. [SpaceTime] shows who knew what when: a lane for each actor and one for the API server with its
// resourceVersions; a write is a line to the server, and what was heard of it a slanted line from there to whoever heard it,
// a long one in the accent colour if somebody acted meanwhile without knowing it. [Sequence] tells who asked whom for what.
// [Timeline] shows the phases of objects, what nodes had attached, staged and published, and who tried again when. [States]
// shows the states of claims, volumes, attachments and mounts, and the path that was taken.
//
// Each picture is decided first, as lanes, rows and marks in the order of the records, and drawn then; so its three forms say
// the same. An SVG stands for itself: no script, no font, nothing from elsewhere; its colours follow whether the reader likes it
// light or dark. The same records give the same bytes.
//
// Not here: what is right and what is wrong in a run. Who knows that says so in [Options].
package picture
