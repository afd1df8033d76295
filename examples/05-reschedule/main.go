// # Lesson 5: a pod moves
//
// A ReadWriteOnce volume can be attached to one node at a time: two machines that write to the same
// ext4 file system destroy it. When a pod moves to another node, the first node must release the
// volume before the second one gets it. Between the pods and the disk stand the attach/detach
// controller, the attacher, the kubelets and the driver. Each of them relies only on what it can
// observe.
package main

import (
	"fmt"
	"strings"

	"github.com/volsim/volsim/examples/notebook"
	"github.com/volsim/volsim/explore/session"
	"github.com/volsim/volsim/sim/trace/picture"
)

// ## A pod runs on node-1
//
// The pod names its node, so that we know where it runs. Usually the scheduler chooses.
const manifest = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: data
spec:
  accessModes: [ReadWriteOnce]
  resources:
    requests:
      storage: 1Gi
---
apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  nodeName: node-1
  containers:
  - name: main
    image: pause
    volumeMounts:
    - name: data
      mountPath: /mnt/data
  volumes:
  - name: data
    persistentVolumeClaim:
      claimName: data
`

var first = session.New("apply "+manifest, "wait pod web Running", "rest")

func podRuns() {
	s := first.MustPlay()
	defer s.Close()
	fmt.Print(s.StateTable())
}

// ## A second pod wants the volume on node-2
//
// Its manifest differs in the name and the node. The attach/detach controller sees that the volume is
// attached to another node and in use there. It does not try to attach it. Instead it reports the
// best-known message of Kubernetes storage in an event: **Multi-Attach error**. This is a wait, not a
// failure, although the event is named FailedAttachVolume.
var other = strings.NewReplacer("name: web", "name: other", "node-1", "node-2").Replace(manifest)

var second = first.Then("apply "+other, "rest")

func multiAttach() {
	s := second.MustPlay()
	defer s.Close()
	for _, event := range s.Events() {
		if strings.Contains(event, "Warning") {
			fmt.Println(event)
		}
	}
	fmt.Print(s.StateTable())
}

// ## The first pod is deleted
//
// Now read what waits for what:
//
//  1. The kubelet of node-1 unpublishes the volume (unmounts it from the pod) and unstages it
//     (unmounts it from the node).
//  2. It removes the volume from the list of volumes in use in its Node object.
//  3. The controller removes the volume from the attached volumes in the node's status, so that no
//     new pod starts using it.
//  4. The controller deletes the VolumeAttachment.
//  5. The attacher has the driver detach the volume, and removes its finalizer. (A **finalizer** is a
//     name on an object. A deleted object remains until all its finalizers are removed.)
//
// Then everything happens in the opposite order on node-2. vol-… is the driver's own name for the
// volume.
var moved = second.Then("delete pod web", "rest")

func handover() {
	s := moved.MustPlay()
	defer s.Close()
	fmt.Print(s.Last())
	fmt.Print(s.StateTable())
}

// ## As a sequence
//
// The same events as a diagram, starting when the first pod is deleted.
func drawn() {
	s := second.MustPlay()
	defer s.Close()
	_, options := s.Scene()
	options.After = s.Log().Steps()
	s.Do("delete pod web")
	s.Do("rest")
	notebook.Show(picture.Sequence(s.Log().Records(), options))
}

// ## A question
//
// The kubelet of node-1 reports that the volume is no longer in use. What if that report does not
// reach the controller, because it receives no updates about nodes for a while? Is the volume
// detached from node-1 while it is in use, or does node-2 wait?
func question() {
	s := second.Then("hold attachdetach/cache nodes", "delete pod web", "rest").MustPlay()
	defer s.Close()
	notebook.Fold("What happens", s.Last())
	notebook.Fold("The objects then", s.StateTable())
}

// <details><summary>Why?</summary>
//
// Node-2 waits for the report. An outdated cache cannot cause a premature detach either: the
// controller reads the node's status from the API server before it detaches. (What if the node cannot
// report anything any more? See lesson 6.)
//
// </details>
func answer() {}

func main() {
	podRuns()
	multiAttach()
	handover()
	drawn()
	question()
	answer()
}
