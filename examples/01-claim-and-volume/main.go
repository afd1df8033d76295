// # Lesson 1: a claim finds its volume
//
// A pod that wants to keep data names no disk. It names a **claim** (PersistentVolumeClaim): "I need 1 GiB". A disk is described by a
// **volume** (PersistentVolume). Somebody has to bring the two together: the PersistentVolume controller. You will see it
// do so, one action at a time.
//
// No controller calls another. Each talks to the API server: writes to it what it wants or has done, and is told by it what
// others have written.
package main

import (
	"fmt"

	"github.com/volsim/volsim/explore/session"
)

// ## A world that stands still
//
// A session is a small cluster in which nothing happens by itself, and a list of lines: what users do, and how far the
// world moves. Here is one with the PersistentVolume controller and nobody else. An administrator has a disk, and a user
// wants one.
var asked = session.New(
	"parts: pvcontroller",
	"create volume disk-1 1Gi",
	"create claim data 1Gi class=", // class=(nothing): take a disk that is there, do not make one
)

// Both objects are in the API server, and nobody has looked at them: that is what "none" means below. A line with "believes" is
// there only where somebody's copy is behind. rv is an object's version, a number that grows with each write to anything.
func nobodyKnows() {
	s := asked.MustPlay()
	defer s.Close()
	fmt.Print(s.StateTable())
}

// ## One step
//
// What could happen next? The controller keeps copies of the objects, its caches, and the API server tells it of each change.
// So the first thing that can happen is that it hears. `step 2` has two things happen.
func whatCouldHappen() {
	s := asked.MustPlay()
	defer s.Close()
	for _, option := range s.Next() {
		fmt.Println(option.Task, option.Description)
	}
	s.Do("step 2")
	fmt.Print(s.Last())
}

// ## To the end
//
// `rest` goes on until nothing is left to happen; small things are reads and deliveries; pvcontroller/claims and pvcontroller/volumes
// are two loops of one controller. Five writes, each of one object: the volume is Available; it is reserved for the claim; it is Bound; the claim is given
// the volume's name; the claim is Bound. There are no transactions in Kubernetes, so binding is a handshake: first the volume
// points to the claim, then the claim to the volume. Whoever dies between two writes can read off the objects how far it got.
var bound = asked.Then("rest")

func handshake() {
	s := bound.MustPlay()
	defer s.Close()
	fmt.Print(s.Last())
	fmt.Print(s.StateTable())
}

// ## A question
//
// The disk has 1 GiB, and the claim asks for 2. What will the controller do: bind it all the same, refuse, or wait? And what
// does it take for the claim to get its volume after all? Think first; the answer is one cell away.
func answer() {
	s := session.New("parts: pvcontroller", "create volume disk-1 1Gi", "create claim data 2Gi class=", "rest").MustPlay()
	defer s.Close()
	fmt.Print(s.StateTable())
	fmt.Println("It waits. And with a disk that is large enough, even much too large:")
	s.Do("create volume disk-2 5Gi")
	s.Do("rest")
	fmt.Print(s.StateTable())
	fmt.Println("It takes the smallest disk that is large enough, and the claim has all of it.")
}

func main() {
	nobodyKnows()
	whatCouldHappen()
	handshake()
	answer()
}
