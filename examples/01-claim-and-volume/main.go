// # Lesson 1: a claim finds its volume
//
// A pod that needs storage does not name a disk. It names a **claim** (PersistentVolumeClaim): "I
// need 1 GiB". A disk is described by a **volume** (PersistentVolume). A program has to bring the
// two together: the PersistentVolume controller. In this lesson you watch it work, one action at a
// time.
//
// Controllers do not call each other. Each one talks only to the API server: it writes what it
// wants or has done, and the API server notifies it of what the others have written.
package main

import (
	"fmt"

	"github.com/volsim/volsim/explore/session"
)

// ## A world that stands still
//
// A session is a small cluster in which nothing runs by itself. You control it with a list of
// lines: what users do, and how far the world advances. This one runs only the PersistentVolume
// controller. An administrator has a disk, and a user wants one.
var asked = session.New(
	"components: pvcontroller",
	"create volume disk-1 1Gi",
	"create claim data 1Gi class=", // empty class: use an existing disk, do not create one
)

// Both objects are in the API server, but the controller has not seen them yet: its cache has
// "none" of them. A line "cached by" appears only while the cache of a component is behind. rv is
// the object's version, a number that grows with each write to any object.
func initialState() {
	s := asked.MustPlay()
	defer s.Close()
	fmt.Print(s.StateTable())
}

// ## One step
//
// What can happen next? The controller keeps copies of the objects in its caches, and the API
// server sends it every change. So the first possible steps are deliveries to these caches. `step
// 2` runs two steps.
func firstSteps() {
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
// `rest` runs until nothing is left to do. "Minor actions" are reads and deliveries.
// pvcontroller/claims and pvcontroller/volumes are two loops of the same controller.
//
// There are five writes, each to one object. The volume becomes Available. It is reserved for the
// claim. It becomes Bound. The claim gets the volume's name. The claim becomes Bound. Kubernetes
// has no transactions across objects, so binding is a handshake: first the volume points to the
// claim, then the claim to the volume. If the controller crashes between two writes, its successor
// can see in the objects how far it got.
var bound = asked.Then("rest")

func handshake() {
	s := bound.MustPlay()
	defer s.Close()
	fmt.Print(s.Last())
	fmt.Print(s.StateTable())
}

// ## A question
//
// The disk has 1 GiB, and the claim asks for 2 GiB. What will the controller do: bind it anyway,
// reject it, or wait? And what must happen for the claim to get a volume after all? Think first;
// the answer is one cell away.
func answer() {
	s := session.New("components: pvcontroller", "create volume disk-1 1Gi", "create claim data 2Gi class=", "rest").MustPlay()
	defer s.Close()
	fmt.Print(s.StateTable())
	fmt.Println("It waits. Now add a disk that is more than large enough:")
	s.Do("create volume disk-2 5Gi")
	s.Do("rest")
	fmt.Print(s.StateTable())
	fmt.Println("It binds the smallest disk that is large enough, and the claim gets all of it.")
}

func main() {
	initialState()
	firstSteps()
	handshake()
	answer()
}
