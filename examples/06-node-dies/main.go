// # Lesson 6: a node fails
//
// In lesson 5 the first node released the volume. A dead node releases nothing. What is worse: a
// dead node looks exactly like one that cannot be reached but still writes. Kubernetes answers with
// patience, or relies on the word of an administrator.
package main

import (
	"fmt"
	"strings"

	"github.com/volsim/volsim/examples/notebook"
	"github.com/volsim/volsim/explore/session"
	"github.com/volsim/volsim/sim/trace"
	"github.com/volsim/volsim/sim/trace/picture"
)

// ## A pod on node-1
//
// A second pod, other, will have the same manifest with the name and the node changed.
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

var other = strings.NewReplacer("name: web", "name: other", "node-1", "node-2").Replace(manifest)

// ## The network cable is unplugged
//
// The pod runs. Then the node is lost: its kubelet stops reporting, and its mounts remain. An
// administrator force-deletes the pod and starts the other one on node-2. (Without force the pod
// would stay Terminating, because only its kubelet can report that it has ended.)
var lost = session.New(
	"apply "+manifest,
	"wait pod web Running",
	"rest",
	"partition node-1",
	"delete pod web now=true",
	"apply "+other,
)

// ## Nothing happens
//
// The pod is gone from the API, but the status of node-1 still says "in use", and nobody will
// update it. The controller waits. (`settle` runs until nothing can happen before the clock
// advances.)
var waiting = lost.Then("settle")

func stuck() {
	s := waiting.MustPlay()
	defer s.Close()
	fmt.Print(s.StateTable())
	node, _ := s.Cluster().Server().Get("nodes", "", "node-1")
	fmt.Println("node node-1:", trace.State(node))
	for _, event := range s.Events() {
		if strings.Contains(event, "Warning") {
			fmt.Println(event)
		}
	}
}

// ## Six minutes later
//
// A node that does not report is marked not ready. From such a node the controller detaches a
// volume after `maxWaitForUnmountDuration`, 6 minutes. This is a **force detach**. The controller
// bets that the node no longer writes. Time is virtual here, so the six minutes pass instantly.
var forced = lost.Then("wait pod other Running")

func sixMinutes() {
	s := forced.MustPlay()
	defer s.Close()
	fmt.Print(s.Last())
	s.Do("settle") // until all caches are up to date
	fmt.Print(s.StateTable())
}

// ## The bet as a picture
//
// Time runs to the right; it is not to scale. Look at the last group. When the volume is detached
// from node-1, it is still published there, and then it is also published on node-2. If node-1 still
// writes, two machines write to one file system.
func bet() {
	s := forced.MustPlay()
	defer s.Close()
	notebook.Show(picture.Timeline(s.Scene()))
}

// ## The word of an administrator
//
// An administrator who knows that the machine is off can say so, with a taint of the node:
//
//	kubectl taint nodes node-1 node.kubernetes.io/out-of-service=:NoExecute
//
// Then the controller does not have to bet: it detaches at once.
func outOfService() {
	s := lost.Then("set node node-1 out-of-service=true", "wait pod other Running").MustPlay()
	defer s.Close()
	fmt.Print(s.Last())
}

// ## A question
//
// The bet is lost: node-1 was alive all the time. After the force detach its cable is plugged in
// again. What does its kubelet find, and what happens to the mounts?
func question() {
	s := forced.Then("restore node-1", "rest").MustPlay()
	defer s.Close()
	notebook.Fold("What happens", s.Last())
	notebook.Fold("The objects then", s.StateTable())
}

// <details><summary>Why?</summary>
//
// The kubelet finds the mounts of a pod that no longer exists, and unmounts them. Data written there
// after the detach is lost if the storage blocked the node's writes. If it did not, the file system
// may be damaged.
//
// </details>
func answer() {}

func main() {
	stuck()
	sixMinutes()
	bet()
	outOfService()
	question()
	answer()
}
