package external

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	clientexec "k8s.io/client-go/util/exec"
)

// kubectlStub passes its arguments to the test, and prints its answer. The real kubectl would have a connection
// of this machine, which does not wait durably, so that the time of the bubble would stand still.
const kubectlStub = `#!/bin/sh
for arg; do printf '%s\0' "$arg"; done >"$0.request"
exec 3<"$0.answer"
read -r code <&3
cat <&3
exit $code
`

// kubectl answers the commands of a stub of kubectl.
type kubectl struct {
	path   string
	config *rest.Config
}

// newKubectl writes the stub.
func newKubectl(t *testing.T) *kubectl {
	k := &kubectl{path: filepath.Join(t.TempDir(), "kubectl")}
	if err := os.WriteFile(k.path, []byte(kubectlStub), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".request", ".answer"} {
		if err := syscall.Mkfifo(k.path+name, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

// Write looks for the line that the suite logs before it starts kubectl, and answers that run. It implements
// io.Writer.
func (k *kubectl) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("Running '"+k.path+" ")) {
		go k.answer()
	}
	return len(p), nil
}

// answer answers one run.
func (k *kubectl) answer() {
	request, err := os.ReadFile(k.path + ".request")
	if err != nil {
		panic(err)
	}
	var out bytes.Buffer
	code := 0
	if err := k.run(strings.Split(strings.TrimSuffix(string(request), "\x00"), "\x00"), &out); err != nil {
		code = 1
		var exit clientexec.CodeExitError
		if errors.As(err, &exit) {
			code = exit.Code
		}
		fmt.Fprintln(&out, err)
	}
	if err := os.WriteFile(k.path+".answer", append(fmt.Appendf(nil, "%d\n", code), out.Bytes()...), 0o600); err != nil {
		panic(err)
	}
}

// run executes a command of kubectl: exec only.
func (k *kubectl) run(args []string, out io.Writer) error {
	var namespace, container string
	var words []string
	for i := 0; i < len(args); i++ {
		name, value, inline := strings.Cut(args[i], "=")
		take := func() string {
			if !inline {
				i++
				value = args[i]
			}
			return value
		}
		switch name {
		case "--namespace", "-n":
			namespace = take()
		case "--container", "-c":
			container = take()
		case "--kubeconfig", "--server", "--context":
			take()
		case "--":
			words = append(words, args[i+1:]...)
			i = len(args)
		default:
			words = append(words, args[i])
		}
	}
	if len(words) < 3 || words[0] != "exec" {
		return fmt.Errorf("the stub of kubectl cannot: %q", args)
	}
	return execute(k.config, namespace, words[1], container, words[2:], out)
}

// execute executes a command in a container.
func execute(config *rest.Config, namespace, pod, container string, command []string, out io.Writer) error {
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	url := api.CoreV1().RESTClient().Get().Resource("pods").Name(pod).Namespace(namespace).SubResource("exec").VersionedParams(&corev1.PodExecOptions{
		Container: container, Command: command, Stdout: true, Stderr: true,
	}, scheme.ParameterCodec).URL()
	executor, err := remotecommand.NewWebSocketExecutor(config, "GET", url.String())
	if err != nil {
		return err
	}
	var stderr bytes.Buffer
	if err := executor.StreamWithContext(context.Background(), remotecommand.StreamOptions{Stdout: out, Stderr: &stderr}); err != nil {
		return fmt.Errorf("%s%w", stderr.String(), err)
	}
	return nil
}
