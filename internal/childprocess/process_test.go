package childprocess_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/volsim/volsim/internal/childprocess"
	"github.com/volsim/volsim/internal/testcheck"
)

// TestProcessEnds ends programs in each way. The program is this test.
func TestProcessEnds(t *testing.T) {
	const mode = "CHILDPROCESS_MODE"
	switch os.Getenv(mode) {
	case "exit":
		os.Exit(3)
	case "wait":
		_, _ = os.Stdin.Read(make([]byte, 1)) // a pipe that is never written
		return
	}
	for _, test := range []struct {
		mode string
		end  func(p *childprocess.Process)
		want string
	}{
		{"exit", func(p *childprocess.Process) { <-p.Done() }, "exit status 3"},
		{"exit", func(p *childprocess.Process) { <-p.Done(); p.Stop(); p.Kill() }, "exit status 3"},
		{"wait", (*childprocess.Process).Kill, "signal: killed"},
		{"wait", (*childprocess.Process).Stop, "signal: terminated"},
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestProcessEnds$")
		cmd.Env = append(os.Environ(), mode+"="+test.mode)
		stdin := testcheck.Must(cmd.StdinPipe())
		p := testcheck.Must(childprocess.Start(cmd))
		if test.mode == "wait" && (p.Err() != nil || !p.Runs()) {
			t.Errorf("%s: error of a running program: %v", test.mode, p.Err())
		}
		test.end(p)
		if err := p.Err(); err == nil || p.Runs() || err.Error() != test.want {
			t.Errorf("%s: %v, want %s", test.mode, err, test.want)
		}
		_ = stdin.Close() // closed by Wait
	}
	if _, err := childprocess.Start(exec.Command("/nonexistent/program")); err == nil {
		t.Error("started a program that does not exist")
	}
}
