package explore_test

import (
	"strings"
	"testing"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/testcheck"
)

// keepsRunning is a pod that appends a line in each run, and is replaced on the other node. Its init container makes the
// file: the pod may be deleted when it is Running and its command has not begun.
var keepsRunning = containerComponents + `user alice
  create claim data 1Gi
  apply
    apiVersion: v1
    kind: Pod
    metadata: {name: web}
    spec:
      nodeName: node-1
      initContainers:
      - name: first
        image: busybox
        command: [sh, -c, "echo 0 >> /data/f"]
        volumeMounts: [{name: data, mountPath: /data}]
      containers:
      - name: main
        image: busybox
        command: [sh, -c, "echo 1 >> /data/f; sync; echo 2 >> /data/f; cp /data/f /data/g; trap exit TERM; sleep infinity"]
        volumeMounts: [{name: data, mountPath: /data}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
  wait pod web Running
  delete pod web
` + commandPod("next", "data", "node-2", "cat /data/f") + "  wait pod next Succeeded\n"

// growsWhileUsed is a claim that grows while its pod runs.
var growsWhileUsed = `components: pvcontroller, provisioner, resizer, attachdetach, attacher, kubelet
containers: shell
user alice
  create claim data 1Gi
` + commandPod("web", "data", "node-1", "echo 1 > /data/f; sleep 1h; cat /data/f") + `  wait pod web Running
  set claim data size=2Gi
  wait claim data 2Gi
  wait pod web Succeeded
`

// TestDataOfContainers searches correct worlds in which containers use volumes. No rule is violated, whatever
// crashes.
func TestDataOfContainers(t *testing.T) {
	testcheck.Stepped(t)
	for _, tt := range []struct{ name, scenario string }{
		{"moves", writesAndMoves},
		{"stays", writesAndStays},
		{"removes", strings.Replace(writesAndMoves, "cat /data/f", "cat /data/f; rm /data/f; touch /data/g; mv /data/g /data/h", 1)},
		{"restores", writesAndRestores},
		{"clones", writesAndClones},
		{"grows", growsWhileUsed},
		{"a node reboots", once("node-1", "reboot") + keepsRunning},
		{"a kubelet crashes", once("kubelet(node-1)", "crash") + keepsRunning},
		{"calls are lost", once("kubelet", "lost") + keepsRunning},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := testcheck.Must(scenario.Parse(tt.name, tt.scenario))
			testcheck.Equal(t, "text", s.String(), testcheck.Must(scenario.Parse(tt.name, s.String())).String())
			for _, cfg := range []explore.Config{{Count: 60}, {Strategy: explore.Restarts, Count: 60}} {
				if r := testcheck.Must(explore.Search(t.Context(), s, cfg)); r.Failure != nil {
					t.Errorf("%v\nunder %s", r.Failure, r.Failure.Scenario.Schedule)
				}
			}
		})
	}
}
