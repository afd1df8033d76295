package volsim_test

import (
	"os"
	"strings"
	"testing"
)

// TestReadmeShowsTestedCode compares the tests that the README shows with those that are run.
func TestReadmeShowsTestedCode(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"simtest/readme_test.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, code, found := strings.Cut(string(source), "\nfunc ")
		if code = "```go\nfunc " + code + "```"; !found || !strings.Contains(string(readme), code) {
			t.Errorf("README.md does not show the test of %s as it is", file)
		}
	}
}
