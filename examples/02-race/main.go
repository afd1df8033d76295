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

// ## One disk, two users
//
// There is one disk. A user asks for it with the claim red.
const disk = `
apiVersion: v1
kind: PersistentVolume
metadata:
  name: disk
spec:
  capacity:
    storage: 1Gi
  accessModes: [ReadWriteOnce]
  csi:
    driver: array.csi.volsim.dev
    volumeHandle: disk
`

const red = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: red
spec:
  storageClassName: ""
  accessModes: [ReadWriteOnce]
  resources:
    requests:
      storage: 1Gi
`

// ## The controller decides
//
// We stop the world right after the controller has made its decision. Its request is on the way: to
// write "reserved for red" on the volume.
var decided = session.New("components: pvcontroller", "apply "+disk, "rest", "apply "+red, "step 2")

func inFlight() {
	s := decided.MustPlay()
	defer s.Close()
	fmt.Print(s.Last())
	for _, option := range s.Next() {
		fmt.Println("next:", option.Task, option.Description)
	}
}

// ## Another write is faster
//
// At this very moment an administrator reserves the disk for another claim, blue, by setting the
// `claimRef` of the volume. That gives the volume a new `resourceVersion` (rv). The controller's
// request contains the old one. It means: "write this only if the object has not changed since". So
// the API server rejects it.
const forBlue = `
apiVersion: v1
kind: PersistentVolume
metadata:
  name: disk
spec:
  claimRef:
    namespace: default
    name: blue
`

var overtaken = decided.Then("apply "+forBlue, "step pvcontroller/claims")

func conflict() {
	s := overtaken.MustPlay()
	defer s.Close()
	fmt.Print(s.StateTable())
	fmt.Print(s.Last())
}

// ## The controller tries again
//
// A conflict is not a failure. The controller receives the change, looks again, and sees that the
// disk is not for red. Nothing is lost, because nothing was overwritten. Then blue arrives, with the
// same request as red, and gets its disk.
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
func question() {
	s := session.New("components: pvcontroller", "apply "+disk, "rest",
		"hold pvcontroller/cache persistentvolumes", // no updates about volumes from now on
		"apply "+forBlue, "apply "+red, "rest").MustPlay()
	defer s.Close()
	notebook.Fold("What the controller does", s.Last())
	notebook.Fold("The objects then", s.StateTable())
}

// <details><summary>Why?</summary>
//
// No: the write is rejected. The controller retries every 15 seconds, and each time the write is
// rejected again. A stale cache costs work, not data.
//
// </details>
func answer() {}

func main() {
	inFlight()
	conflict()
	retry()
	drawn()
	question()
	answer()
}
