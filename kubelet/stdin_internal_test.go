package kubelet

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/kubelet/container"
	"github.com/volsim/volsim/plugins/nodefs"
)

// A startedRuntime has the specs that it was asked to start.
type startedRuntime struct {
	container.Runtime // the methods that are not used
	specs             []container.Spec
}

func (r *startedRuntime) Start(spec container.Spec) { r.specs = append(r.specs, spec) }

// TestStdin: a run has an input if its container asks for one, which is what clients attach to.
func TestStdin(t *testing.T) {
	t.Parallel()
	runtime := &startedRuntime{}
	k := &Kubelet{
		cfg: Config{Containers: runtime, FS: nodefs.NewMemory("/"), Root: "/"}, recorder: record.NewFakeRecorder(10),
		inputs: map[container.Run]*container.Input{},
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "uid"}, Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "reads", Stdin: true}, {Name: "none"},
	}}}
	for i, name := range []string{"reads", "none"} {
		run := container.Run{Pod: "uid", Container: name}
		k.startRun(pod, container.Spec{}, run)
		testcheck.Equal(t, name+" reads", i == 0, k.Stdin(run) != nil)
		testcheck.Equal(t, name+" has its own", true, k.Stdin(run) == runtime.specs[i].Stdin)
	}
}
