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

	"github.com/volsim/volsim/examples/notebook"
	"github.com/volsim/volsim/explore/session"
	"github.com/volsim/volsim/sim/trace/picture"
)

// ## A disk and a claim
//
// An administrator has a disk, and describes it to Kubernetes. `csi` names the driver that knows the
// disk, and the driver's name of it. A user wants some storage. The empty `storageClassName` means:
// use an existing disk, do not create one.
const disk = `
apiVersion: v1
kind: PersistentVolume
metadata:
  name: disk-1
spec:
  capacity:
    storage: 1Gi
  accessModes: [ReadWriteOnce]
  csi:
    driver: array.csi.volsim.dev
    volumeHandle: disk-1
`

const claim = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: data
spec:
  storageClassName: ""
  accessModes: [ReadWriteOnce]
  resources:
    requests:
      storage: 1Gi
`

// ## A world that stands still
//
// A session is a small cluster in which nothing runs by itself. You control it with a list of
// lines: what users do, and how far the world advances. This one runs only the PersistentVolume
// controller. `apply` does what `kubectl apply` does.
var asked = session.New("components: pvcontroller", "apply "+disk, "apply "+claim)

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
var bound = asked.Then("rest")

func toTheEnd() {
	s := bound.MustPlay()
	defer s.Close()
	fmt.Print(s.Last())
	fmt.Print(s.StateTable())
}

// ## The handshake
//
// The same run as a picture. Time runs downward. An arrow is a write to the API server. A number in
// a pill is the new rv. A slanted line is the delivery of a write to a cache.
//
// There are five writes, each to one object. The volume becomes Available. It is reserved for the
// claim. It becomes Bound. The claim gets the volume's name. The claim becomes Bound. Kubernetes
// has no transactions across objects, so binding is a handshake: first the volume points to the
// claim, then the claim to the volume. If the controller crashes between two writes, its successor
// can see in the objects how far it got.
func handshake() {
	s := bound.MustPlay()
	defer s.Close()
	notebook.Show(picture.SpaceTime(s.Scene()))
}

// ## A question
//
// The disk has 1 GiB, and the claim asks for 2 GiB. What will the controller do: bind it anyway,
// reject it, or wait? And what happens if the administrator then adds a disk of 5 GiB? Think first,
// then open the results. (`create claim data 2Gi class=` is short for a manifest like the one above.)
func question() {
	s := session.New("components: pvcontroller", "apply "+disk, "create claim data 2Gi class=", "rest").MustPlay()
	defer s.Close()
	notebook.Fold("Only the small disk", s.StateTable())
	s.Do("create volume disk-2 5Gi")
	s.Do("rest")
	notebook.Fold("With a disk of 5 GiB", s.StateTable())
}

// <details><summary>Why?</summary>
//
// The claim waits. That is not an error: a suitable disk may appear later. When it does, the
// controller binds the smallest disk that is large enough. The claim gets all of it, 5 GiB.
//
// </details>
func answer() {}

func main() {
	initialState()
	firstSteps()
	toTheEnd()
	handshake()
	question()
	answer()
}
