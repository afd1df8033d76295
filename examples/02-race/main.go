// # Lesson 2: two claims, one volume
//
// The world does not stand still between a read and a write. A controller decides with the data in
// its cache, and that data may be old. This lesson shows what happens then, and why it usually does
// no harm: because of the **conflict**.
package main

import (
	"fmt"

	"github.com/volsim/volsim/examples/notebook"
	"github.com/volsim/volsim/explore/session"
	"github.com/volsim/volsim/sim/trace/picture"
)

// ## The controller decides
//
// There is one disk, and the claim red asks for it. We stop the world right after the controller
// has made its decision. Its request is on the way: to write "reserved for red" on the volume.
var decided = session.New(
	"components: pvcontroller",
	"create volume disk 1Gi",
	"rest",
	"create claim red 1Gi class=",
	"step 2",
)

func inFlight() {
	s := decided.MustPlay()
	defer s.Close()
	fmt.Print(s.Last())
	for _, option := range s.Next() {
		fmt.Println("next:", option.Task, option.Description)
	}
}

// ## Somebody is faster
//
// At this very moment an administrator reserves the disk for blue. That gives the volume a new
// `resourceVersion` (rv). The controller's request contains the old one. It means: "write this only
// if nobody else has written since". So the API server rejects it.
var overtaken = decided.Then("set volume disk for=blue", "step pvcontroller/claims")

func conflict() {
	s := overtaken.MustPlay()
	defer s.Close()
	fmt.Print(s.StateTable())
	fmt.Print(s.Last())
}

// ## The controller tries again
//
// A conflict is not a failure. The controller receives the change, looks again, and sees that the
// disk is not for red. Nothing is lost, because nothing was overwritten. Then blue arrives and gets
// its disk.
var settled = overtaken.Then("rest", "create claim blue 1Gi class=", "rest")

func retry() {
	s := settled.MustPlay()
	defer s.Close()
	fmt.Print(s.StateTable())
}

// ## The same as a picture
//
// Each lane is a process, and time runs downward. A slanted line is an update on its way from the
// API server to a cache. A broken line is a write that was rejected.
func drawn() {
	s := settled.MustPlay()
	defer s.Close()
	notebook.Show(picture.SpaceTime(s.Scene()))
}

// ## A question
//
// What if the controller is not just a moment late, but receives no updates about volumes at all,
// because its connection hangs? For minutes its cache says that the disk is free. Can red get the
// disk, although it is reserved for blue?
func answer() {
	s := session.New("components: pvcontroller", "create volume disk 1Gi", "rest",
		"hold pvcontroller/cache persistentvolumes", "set volume disk for=blue",
		"create claim red 1Gi class=", "rest").MustPlay()
	defer s.Close()
	fmt.Print(s.Last())
	fmt.Print(s.StateTable())
	fmt.Println("No: the write is rejected. The controller retries every 15 seconds, and each time the write is rejected again.")
	fmt.Println("A stale cache costs work, not data.")
}

func main() {
	inFlight()
	conflict()
	retry()
	drawn()
	answer()
}
