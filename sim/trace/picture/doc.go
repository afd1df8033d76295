// Package picture draws the records of a run, as SVG, as Mermaid and as plain text.
//
//	records := host.Log().Records()
//	drawing := picture.SpaceTime(records, picture.Options{Title: "A race"})
//	fmt.Print(drawing.Text())
//	err := os.WriteFile("race.svg", drawing.SVG(), 0o644)
//
// There are four pictures. [SpaceTime] has a lane for each process and one for the API server with
// its resourceVersions. A write is a line to the server. A delivery is a slanted line from there to
// the process whose cache sees the write. It is long and in the accent colour if the process acted
// meanwhile without having seen the write. [Sequence] shows requests and calls in words. [Timeline]
// shows the phases of objects, the volumes that nodes had attached, staged and published, and
// retries. [States] shows the state machines of claims, volumes, pods, attachments and mounts, and
// the transitions that were taken.
//
// Each picture is first laid out as lanes, rows and marks in the order of the records, and then
// drawn. Its three forms therefore agree. An SVG is self-contained: it has no script, no font and
// no external reference. Its colours follow the light or dark preference of the reader. The same
// records produce the same bytes.
//
// # What it does not do
//
// The package does not check rules. A caller that knows which rule was violated says so in
// [Options].
package picture
