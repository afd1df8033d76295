// # Lesson 2: two claims, one volume
//
// Between reading and writing, the world goes on. Whoever decides something in Kubernetes decides it on what he has heard so
// far, and that may be old. This lesson shows what then happens, and why it mostly does no harm: the **conflict**.
package main

import (
	"fmt"

	"github.com/volsim/volsim/examples/notebook"
	"github.com/volsim/volsim/explore/session"
	"github.com/volsim/volsim/sim/trace/picture"
)

// ## The controller decides
//
// There is one disk. Red asks for it. We stop the world at the moment at which the controller has made its decision, and its
// request is on its way: to write "reserved for red" on the volume.
var decided = session.New(
	"parts: pvcontroller",
	"create volume disk 1Gi",
	"rest",
	"create claim red 1Gi class=",
	"step 2",
)

func onItsWay() {
	s := decided.MustPlay()
	defer s.Close()
	fmt.Print(s.Last())
	for _, option := range s.Next() {
		fmt.Println("next:", option.Task, option.Description)
	}
}

// ## Somebody is faster
//
// In this very moment an administrator reserves the disk for blue. The volume has another `resourceVersion` now (rv). The
// controller's request names the old one: "write this if nobody has written since". So the API server refuses.
var overtaken = decided.Then("set volume disk for=blue", "step pvcontroller/claims")

func conflict() {
	s := overtaken.MustPlay()
	defer s.Close()
	fmt.Print(s.StateTable())
	fmt.Print(s.Last())
}

// ## It decides anew
//
// A conflict is no failure. The controller hears of the change, looks again, and finds that the disk is not for red. Nothing
// was lost, since nothing was written over. Then blue comes, and gets its disk.
var settled = overtaken.Then("rest", "create claim blue 1Gi class=", "rest")

func anew() {
	s := settled.MustPlay()
	defer s.Close()
	fmt.Print(s.StateTable())
}

// ## The same as a picture
//
// Each lane is somebody; time runs downward. A slanted line is news on its way from the API server to a cache, and a broken
// one a write that was refused.
func drawn() {
	s := settled.MustPlay()
	defer s.Close()
	notebook.Show(picture.SpaceTime(s.Scene()))
}

// ## A question
//
// What if the controller is not only a moment late, but does not hear of volumes at all any more, say because its connection
// hangs? It believes for minutes that the disk is free. Can red get it, although it is reserved for blue?
func answer() {
	s := session.New("parts: pvcontroller", "create volume disk 1Gi", "rest",
		"hold pvcontroller/cache persistentvolumes", "set volume disk for=blue",
		"create claim red 1Gi class=", "rest").MustPlay()
	defer s.Close()
	fmt.Print(s.Last())
	fmt.Print(s.StateTable())
	fmt.Println("No: its write is refused. When it looks at all claims again, every 15 seconds, it tries again, and is refused again.")
	fmt.Println("Being late costs work, not data.")
}

func main() {
	onItsWay()
	conflict()
	anew()
	drawn()
	answer()
}
