package kubelet_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
)

// withShell lets the commands of containers run.
func withShell(cfg *cluster.Config) { cfg.Containers = cluster.ShellContainers }

// shellPod returns a pod whose containers, named main, second and so on, execute scripts, with a claim at /data.
func shellPod(policy corev1.RestartPolicy, claim string, scripts ...string) *corev1.Pod {
	pod := cluster.NewPod("web")
	if claim != "" {
		pod = cluster.NewPod("web", claim)
	}
	pod.Spec.RestartPolicy = policy
	template := pod.Spec.Containers[0]
	for i := range template.VolumeMounts {
		template.VolumeMounts[i].MountPath = "/data"
	}
	pod.Spec.Containers = nil
	for i, script := range scripts {
		c := *template.DeepCopy()
		c.Name = []string{"main", "second", "third"}[i]
		c.Command = []string{"sh", "-c", script}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	return pod
}

// logs returns what the current run of a container has written.
func (w *world) logs(container string) string {
	w.t.Helper()
	return testcheck.Must(w.Logs("default", "web", container))
}

// eventsOf returns the events of an object as "Type Reason Message", sorted, without those that all pods have.
func (w *world) eventsOf(name string) []string {
	w.t.Helper()
	var all []string
	events := testcheck.Must(w.Client().CoreV1().Events("default").List(w.t.Context(), metav1.ListOptions{}))
	for _, e := range events.Items {
		if e.InvolvedObject.Name == name && e.Reason != "Started" && !strings.Contains(e.Reason, "AttachVolume") {
			all = append(all, e.Type+" "+e.Reason+" "+e.Message)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// TestRunsOfContainers are lives of pods whose commands run.
func TestRunsOfContainers(t *testing.T) {
	t.Parallel()
	const first, run = "Pending", "Running main:running ready"
	for _, c := range []struct {
		name    string
		policy  corev1.RestartPolicy
		scripts []string
		life    []string
		logs    string // of main
	}{
		{"completes", corev1.RestartPolicyNever, []string{"echo done"}, []string{first, run, "Succeeded main:Completed/0"}, "done\n"},
		{"fails", corev1.RestartPolicyNever, []string{"echo bad >&2; exit 3"}, []string{first, run, "Failed main:Error/3"}, "bad\n"},
		{"a command that does not exist", corev1.RestartPolicyNever, []string{"nothing"}, []string{first, run, "Failed main:Error/127"}, "sh: nothing: not found\n"},
		{
			"completes after a failure", corev1.RestartPolicyOnFailure,
			[]string{"if [ -e /data/f ]; then echo again; else touch /data/f; exit 1; fi"},
			[]string{first, run, "Running main:Error/1", "Running main:running(1) ready", "Succeeded main:Completed/0(1)"},
			"again\n",
		},
		{
			"two containers share a volume", corev1.RestartPolicyNever,
			[]string{"while [ ! -e /data/f ]; do sleep 1; done; cat /data/f; sleep 3", "sleep 5; echo hello > /data/f"},
			[]string{
				first, "Running main:running second:running ready", "Running main:running second:Completed/0",
				"Succeeded main:Completed/0 second:Completed/0",
			},
			"hello\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, withShell)
			claim := w.claim("data")
			w.createPod(shellPod(c.policy, claim, c.scripts...))
			w.rest()
			testcheck.Equal(t, "life", c.life, w.lives["web"])
			testcheck.Equal(t, "logs", c.logs, w.logs("main"))
		})
	}
}

// claim creates a claim, waits until it is bound and returns its name.
func (w *world) claim(name string) string {
	w.t.Helper()
	_, err := w.Client().CoreV1().PersistentVolumeClaims("default").Create(w.t.Context(), cluster.NewClaim(name, "1Gi"), metav1.CreateOptions{})
	testcheck.NoError(w.t, err)
	testcheck.NoError(w.t, w.WaitForClaim(w.t.Context(), "default", name, corev1.ClaimBound))
	return name
}

// TestInitAndSidecarContainers: init containers run one after the other, a sidecar container with the others.
func TestInitAndSidecarContainers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withShell)
	pod := shellPod(corev1.RestartPolicyNever, w.claim("data"), "cat /data/order; touch /data/end")
	for i, script := range []string{"echo one > /data/order", "trap 'exit 0' TERM; echo sidecar >> /data/order; while :; do sleep 1; done", "sleep 2; echo two >> /data/order"} {
		c := *pod.Spec.Containers[0].DeepCopy()
		c.Name, c.Command[2] = []string{"first", "proxy", "last"}[i], script
		if c.Name == "proxy" {
			c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	w.createPod(pod)
	testcheck.NoError(t, w.WaitForPod(t.Context(), "default", "web", corev1.PodSucceeded))
	testcheck.Equal(t, "logs", "one\nsidecar\ntwo\n", w.logs("main"))
	w.rest()
	testcheck.Equal(t, "sidecar", "Completed/0", stateOf(w.pod("web").Status.InitContainerStatuses[1].State))
}

// TestDeletedPodEndsItsContainers: by TERM, and by KILL after the grace; the volume is unmounted afterwards.
func TestDeletedPodEndsItsContainers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, script, ended string
		takes               time.Duration
		file                string
	}{
		{"with a trap", "trap 'echo bye > /data/last; exit 0' TERM; while :; do sleep 1; done", "Succeeded main:Completed/0", 0, "bye\n"},
		{"without", "echo up > /data/last; while :; do sleep 1; done", "Failed main:Error/137", 30 * time.Second, "up\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, withShell)
			w.createPod(shellPod(corev1.RestartPolicyAlways, w.claim("data"), c.script))
			testcheck.NoError(t, w.WaitForPod(t.Context(), "default", "web", corev1.PodRunning))
			w.pass(5 * time.Second)
			path := testcheck.Must(w.MountPath("default", "web", "data"))
			began := w.host.Now()
			w.delete("web")
			testcheck.NoError(t, w.WaitForGone(t.Context(), "pods", "default", "web"))
			testcheck.Equal(t, "end", c.ended, w.lives["web"][len(w.lives["web"])-1])
			if took := w.host.Now().Sub(began); took < c.takes || took > c.takes+5*time.Second {
				t.Errorf("the end took %s, want %s", took, c.takes)
			}
			mounted, err := w.Machine("node-1")
			testcheck.NoError(t, err)
			if exists, err := mounted.FS.Exists(path); exists || err != nil {
				t.Errorf("the volume is still mounted: %v", err)
			}
			reader := shellPod(corev1.RestartPolicyNever, "data", "cat /data/last")
			w.createPod(reader)
			testcheck.NoError(t, w.WaitForPod(t.Context(), "default", "web", corev1.PodSucceeded))
			testcheck.Equal(t, "file", c.file, w.logs("main"))
		})
	}
}

// TestKubeletRestartKeepsRuns: containers outlive their kubelet, and the next one observes their end.
func TestKubeletRestartKeepsRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withShell)
	w.createPod(shellPod(corev1.RestartPolicyNever, w.claim("data"), "echo begin; sleep 60; echo end"))
	testcheck.NoError(t, w.WaitForPod(t.Context(), "default", "web", corev1.PodRunning))
	testcheck.NoError(t, w.Stop("kubelet(node-1)"))
	w.pass(2 * time.Minute)
	testcheck.NoError(t, w.Resume("kubelet(node-1)"), w.WaitForPod(t.Context(), "default", "web", corev1.PodSucceeded))
	testcheck.Equal(t, "logs", "begin\nend\n", w.logs("main"))
}

// TestRebootEndsRuns: they begin again, and find what was written.
func TestRebootEndsRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withShell)
	w.createPod(shellPod(corev1.RestartPolicyAlways, w.claim("data"), "echo run >> /data/f; cat /data/f; trap exit TERM; while :; do sleep 1; done"))
	testcheck.NoError(t, w.WaitForPod(t.Context(), "default", "web", corev1.PodRunning))
	w.pass(3 * time.Second)
	testcheck.NoError(t, w.Reboot("node-1"))
	w.pass(time.Minute)
	testcheck.Equal(t, "logs", "run\nrun\n", w.logs("main"))
}

// TestEnvironmentOfContainers: values, fields, config maps and secrets.
func TestEnvironmentOfContainers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withShell)
	core := w.Client().CoreV1()
	_, err := core.ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"LEVEL": "high", "COLOUR": "red"},
	}, metav1.CreateOptions{})
	testcheck.NoError(t, err)
	_, err = core.Secrets("default").Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "password"}, Data: map[string][]byte{"word": []byte("sesame")},
	}, metav1.CreateOptions{})
	testcheck.NoError(t, err)
	pod := shellPod(corev1.RestartPolicyNever, "", "")
	c := &pod.Spec.Containers[0]
	key := corev1.LocalObjectReference{Name: "settings"}
	c.EnvFrom = []corev1.EnvFromSource{
		{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: key}},
		{Prefix: "P_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: key}},
		{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "no"}, Optional: ptr.To(true)}},
	}
	c.Env = []corev1.EnvVar{
		{Name: "WORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "password"}, Key: "word"}}},
		{Name: "NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
		{Name: "BOTH", Value: "$(NAME)-$(WORD)"},
		{Name: "NONE", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: key, Key: "none", Optional: ptr.To(true)}}},
	}
	c.Command = []string{"sh", "-c", `echo $LEVEL $P_COLOUR $WORD $NAME $BOTH "[$NONE]"; hostname; echo "$0" "$1"`}
	c.Args = []string{"$(NAME)", "$$(NAME)"}
	w.createPod(pod)
	testcheck.NoError(t, w.WaitForPod(t.Context(), "default", "web", corev1.PodSucceeded))
	testcheck.Equal(t, "logs", "high red sesame web web-sesame []\nweb\nweb $(NAME)\n", w.logs("main"))
}

// TestContainerThatCannotBeConfigured waits, and starts when what is missing exists.
func TestContainerThatCannotBeConfigured(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withShell)
	pod := shellPod(corev1.RestartPolicyNever, "", "echo $LEVEL")
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "LEVEL", ValueFrom: &corev1.EnvVarSource{
		ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}, Key: "level"},
	}}}
	w.createPod(pod)
	w.pass(time.Minute)
	waiting := w.pod("web").Status.ContainerStatuses[0].State.Waiting
	testcheck.Equal(t, "waiting", corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: `configmap "settings" not found`}, *waiting)
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"colour": "red"}}
	settings = testcheck.Must(w.Client().CoreV1().ConfigMaps("default").Create(t.Context(), settings, metav1.CreateOptions{}))
	w.pass(time.Minute)
	testcheck.Equal(t, "message", "couldn't find key level in ConfigMap default/settings", w.pod("web").Status.ContainerStatuses[0].State.Waiting.Message)
	settings.Data["level"] = "high"
	_, err := w.Client().CoreV1().ConfigMaps("default").Update(t.Context(), settings, metav1.UpdateOptions{})
	testcheck.NoError(t, err, w.WaitForPod(t.Context(), "default", "web", corev1.PodSucceeded))
	testcheck.Equal(t, "logs", "high\n", w.logs("main"))
	testcheck.Equal(t, "events", []string{
		`Warning Failed Error: configmap "settings" not found`, "Warning Failed Error: couldn't find key level in ConfigMap default/settings",
	}, w.eventsOf("web"))
}

// TestProbes: a pod is ready when its probe succeeds, and restarted when it fails.
func TestProbes(t *testing.T) {
	t.Parallel()
	command := func(script string) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", script}}},
			PeriodSeconds: 5, FailureThreshold: 2, SuccessThreshold: 1, TimeoutSeconds: 1,
		}
	}
	w := newWorld(t, withShell)
	pod := shellPod(corev1.RestartPolicyAlways, w.claim("data"), "trap exit TERM; rm -f /data/ready /data/sick; sleep 20; touch /data/ready; while :; do sleep 1; done")
	c := &pod.Spec.Containers[0]
	c.ReadinessProbe = command("cat /data/ready")
	c.LivenessProbe = command("test ! -e /data/sick")
	w.createPod(pod)
	testcheck.NoError(t, w.WaitForPod(t.Context(), "default", "web", corev1.PodRunning))
	w.pass(15 * time.Second)
	testcheck.Equal(t, "life", []string{"Pending", "Running main:running"}, w.lives["web"])
	w.pass(20 * time.Second)
	testcheck.Equal(t, "life", []string{"Pending", "Running main:running", "Running main:running ready"}, w.lives["web"])
	testcheck.NoError(t, w.WriteFile("default", "web", "data", "sick", nil))
	w.pass(20 * time.Second)
	testcheck.Equal(t, "life", []string{
		"Pending", "Running main:running", "Running main:running ready", "Running main:Completed/0", "Running main:running(1)",
	}, w.lives["web"])
	testcheck.Equal(t, "events", []string{
		"Normal Killing Container main failed liveness probe, will be restarted", "Warning Unhealthy Liveness probe failed: ",
		"Warning Unhealthy Readiness probe failed: cat: can't open '/data/ready': No such file or directory\n",
	}, w.eventsOf("web"))
}

// TestProbesWithoutNetwork: those by HTTP, TCP and gRPC count as passed, and an event of each container says so once.
func TestProbesWithoutNetwork(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withShell)
	pod := shellPod(corev1.RestartPolicyAlways, "", "sleep 10; exit 1")
	c := &pod.Spec.Containers[0]
	c.StartupProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 1}}}
	c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{}}}
	c.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{}}}
	w.createPod(pod)
	w.pass(2 * time.Minute)
	const text = " is not executed, since containers have no network: it counts as passed"
	testcheck.Equal(t, "events", []string{
		"x1 Normal ProbeIgnored web: Liveness probe by TCP" + text, "x1 Normal ProbeIgnored web: Readiness probe by HTTP" + text,
		"x1 Normal ProbeIgnored web: Startup probe by gRPC" + text,
	}, w.events("ProbeIgnored"))
	testcheck.Equal(t, "life", []string{"Pending", "Running main:running ready", "Running main:Error/1"}, w.lives["web"][:3])
}

// TestPreStop: the hook is executed before TERM.
func TestPreStop(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withShell)
	pod := shellPod(corev1.RestartPolicyAlways, w.claim("data"), "trap 'echo term >> /data/f; exit 0' TERM; while :; do sleep 1; done")
	pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
		Exec: &corev1.ExecAction{Command: []string{"sh", "-c", "echo hook > /data/f; sleep 3"}},
	}}
	w.createPod(pod)
	testcheck.NoError(t, w.WaitForPod(t.Context(), "default", "web", corev1.PodRunning))
	w.pass(5 * time.Second)
	w.delete("web")
	testcheck.NoError(t, w.WaitForGone(t.Context(), "pods", "default", "web"))
	w.createPod(shellPod(corev1.RestartPolicyNever, "data", "cat /data/f"))
	testcheck.NoError(t, w.WaitForPod(t.Context(), "default", "web", corev1.PodSucceeded))
	testcheck.Equal(t, "file", "hook\nterm\n", w.logs("main"))
}
