package browser_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

var shots = flag.String("shots", "", "`directory` for screenshots of the tests (default none)")

// browserTimeout is the time limit of one action.
const browserTimeout = 30 * time.Second

// A browser is a real browser that shows a page of "volsim serve".
type browser struct {
	t       *testing.T
	ctx     context.Context
	console iter.Seq2[chromedp.ConsoleMessage, error]
}

// browse serves a world and opens its page.
func browse(t *testing.T, args ...string) *browser {
	t.Helper()
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skipf("no chromium: %v (apt-get install --no-install-recommends chromium)", err)
	}
	link := servePage(t, args...)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()),
		chromedp.WindowSize(1280, 800))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	b := &browser{t: t, ctx: ctx, console: chromedp.Console(ctx)}
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Errorf("close browser: %v", err)
		}
		cancel()
	})
	b.do(chromedp.Navigate(link), chromedp.WaitVisible(chromedp.CSS("#objects tr")))
	return b
}

// servePage runs "volsim serve" until the end of the test and returns the link to its page.
func servePage(t *testing.T, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "volsim")
	if out, err := exec.Command("go", "build", "-C", "../..", "-o", program, "./cmd/volsim").CombinedOutput(); err != nil {
		t.Fatalf("build volsim: %v: %s", err, out)
	}
	serve := exec.Command(program, append([]string{"serve", "--kubeconfig", filepath.Join(dir, "config")}, args...)...)
	out, err := serve.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	serve.Stderr = os.Stderr
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = serve.Process.Signal(os.Interrupt)
		if err := serve.Wait(); err != nil {
			t.Errorf("volsim serve: %v", err)
		}
	})
	lines := bufio.NewScanner(out)
	link := ""
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "stop with") {
		if url, is := strings.CutPrefix(lines.Text(), "page     "); is {
			link = url
		}
	}
	if link == "" {
		t.Fatalf("no link printed by volsim serve: %v", lines.Err())
	}
	go func() {
		for lines.Scan() {
			continue
		}
	}()
	return link
}

func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, browserTimeout)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatalf("%v; text of the page:\n%s", err, b.text())
	}
}

// text returns the text of the page.
func (b *browser) text() string {
	text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string]("document.body.innerText"))
	if err != nil {
		return err.Error()
	}
	return text
}

// click waits for a clickable element and clicks it. The page may replace the element at any
// moment, so a single script finds and clicks it.
func (b *browser) click(selector string) {
	b.t.Helper()
	b.waitFor(selector+" to click on", fmt.Sprintf(
		"(e => e && e.checkVisibility() && !e.disabled && (e.click(), true))(document.querySelector(%q))", selector))
}

// execute types an operation and executes it.
func (b *browser) execute(op string) {
	b.t.Helper()
	b.do(chromedp.SetValue(chromedp.CSS("#op"), op))
	b.click("#do")
}

// waitFor waits until a JavaScript expression is true.
func (b *browser) waitFor(what, expression string) {
	b.t.Helper()
	if _, err := chromedp.Run(b.ctx, chromedp.Poll[bool](expression, chromedp.WithPollingInterval(50*time.Millisecond), chromedp.WithPollingTimeout(browserTimeout))); err != nil {
		b.t.Fatalf("not seen: %s: %v; text of the page:\n%s", what, err, b.text())
	}
}

// waitForText waits until an element contains a text.
func (b *browser) waitForText(selector, text string) {
	b.t.Helper()
	b.waitFor(selector+" says "+text, fmt.Sprintf("[...document.querySelectorAll(%q)].some(e => e.checkVisibility() && e.textContent.includes(%q))", selector, text))
}

// waitForDiagram waits until the diagram contains a text.
func (b *browser) waitForDiagram(text string) {
	b.t.Helper()
	b.waitFor("the diagram has "+text, fmt.Sprintf("[...document.getElementById('diagram').shadowRoot.querySelectorAll('text')].some(e => e.textContent.includes(%q))", text))
}

// checkConsole fails the test if the browser's console has errors, except for responses with status
// 422.
func (b *browser) checkConsole() {
	b.t.Helper()
	const last = "that is all"
	if _, err := chromedp.Run(b.ctx, chromedp.Evaluate[any](fmt.Sprintf("console.log(%q)", last))); err != nil {
		b.t.Fatal(err)
	}
	for message, err := range b.console {
		switch {
		case err != nil:
			b.t.Fatal(err)
		case message.Text == last:
			return
		case message.Source == "network" && strings.Contains(message.Text, "422"):
		default:
			b.t.Errorf("browser console: %s", message)
		}
	}
}

// screenshot saves a screenshot if requested.
func (b *browser) screenshot(name string, width, height int64, scheme string) {
	if *shots == "" {
		return
	}
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, height))
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	}); err != nil {
		b.t.Fatal(err)
	}
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*shots, name+".png"), png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func TestPageControlsASteppedWorld(t *testing.T) {
	b := browse(t, "--by-hand")
	b.waitForText("#next-panel", "None until a timer fires or a user acts")
	b.screenshot("begin-light", 1280, 800, "light")
	b.execute("create claim data 64Mi")
	b.waitForText("#objects", "claim default/data")
	b.waitForText("#objects .stale", "not in the cache of pvcontroller")
	b.waitForDiagram("creates claim default/data of 64Mi")
	b.click("#step")
	b.waitForText("#message", "sees claim default/data added")
	b.screenshot("claim-light", 1280, 800, "light")

	b.waitForText("#next li", "the claim cache of provisioner")
	b.click(`[data-key="hold provisioner/cache persistentvolumeclaims"]`)
	b.waitForText("#next li.held", "the claim cache of provisioner")
	b.click("#rest")
	b.waitForText("#message", "except for held tasks: provisioner/cache persistentvolumeclaims")
	b.waitForText("#objects .stale", "not in the cache of provisioner")
	b.screenshot("held-dark", 1280, 800, "dark")
	b.screenshot("held-light", 1280, 800, "light")
	b.click(`[data-key="hold provisioner/cache persistentvolumeclaims"]`)
	b.execute("create pod web data on=node-1")
	b.execute("step 12")
	b.click(`#targets [data-key="crash pvcontroller"]`)
	b.waitForDiagram("pvcontroller")
	b.execute("nonsense")
	b.waitForText("#message.error", "nonsense")
	b.screenshot("error-light", 1280, 800, "light")
	b.click("#rest")
	b.waitForText("#objects", "Running on node-1")
	b.screenshot("running-light", 1280, 800, "light")
	b.screenshot("running-dark", 1280, 800, "dark")
	b.screenshot("running-narrow", 420, 900, "light")
	b.screenshot("running-large", 1680, 1100, "light")
	// Undo the last operation, then run at a visible speed until nothing is left to do.
	b.click("#undo")
	b.waitForText("#message", "undone: rest")
	b.do(chromedp.SetJavascriptAttribute(chromedp.CSS("#speed"), "value", "6"))
	b.click("#run")
	b.waitForText("#objects", "Running on node-1")
	b.waitForText("#message", "nothing left to do")
	b.waitFor("the run ends by itself", `document.getElementById("pause").disabled && !document.getElementById("run").disabled`)
	b.click("#tab-story")
	b.waitForText("#story", "crash pvcontroller")
	b.screenshot("story-light", 1280, 800, "light")
	b.click("#tab-events")
	b.waitForText("#events", "SuccessfulAttachVolume")
	b.screenshot("events-dark", 1280, 800, "dark")
	b.checkConsole()
}

// On a narrow page, all words of the diagram, the story, the events and the panels are in view without
// scrolling to the side.
func TestNarrowPageShowsTheWordsOfTheDiagram(t *testing.T) {
	b := browse(t, "--by-hand")
	b.do(chromedp.EmulateViewport(400, 900))
	b.execute("create claim data 64Mi")
	b.execute("create pod web data on=node-1")
	b.click("#rest")
	b.waitForText("#objects", "Running on node-1")
	b.waitForDiagram("user creates claim default/data of 64Mi")
	b.waitFor("all words are in view", `[...document.getElementById("diagram").shadowRoot.querySelectorAll("text")]
		.filter(e => e.textContent.includes(" ")).every(e => { const r = e.getBoundingClientRect(); return r.left >= 0 && r.right <= 400; })`)
	b.waitFor("the page is not wider than the window", `document.documentElement.scrollWidth <= 400`)
	b.screenshot("phone-light", 400, 900, "light")
	b.screenshot("phone-whole", 400, 3000, "light")
	b.click("#tab-events")
	b.waitForText("#events", "SuccessfulAttachVolume")
	b.screenshot("phone-events", 400, 3000, "light")
	b.click("#tab-story")
	b.execute("hold attacher")
	b.execute("delete pod web")
	b.execute("create pod other data on=node-2")
	b.click("#rest")
	b.waitForText("#objects .reason", "Multi-Attach")
	b.execute("create claim more 64Mi")
	b.execute("step 9")
	b.execute("hold kubelet(node-1)/cache persistentvolumeclaims")
	b.execute("nonsense now")
	b.waitForText("#message.error", "nonsense now")
	b.screenshot("phone-held", 400, 3000, "light")
	b.click("#tab-events")
	for _, id := range []string{"next-panel", "objects-panel", "faults-panel", "events-panel", "story-panel", "message"} {
		b.click(map[bool]string{true: "#tab-story", false: "#tab-events"}[id == "story-panel"])
		b.waitFor("nothing is beyond the right end of #"+id, fmt.Sprintf(`(e => e.checkVisibility() && e.scrollWidth <= e.clientWidth)(document.getElementById(%q))`, id))
	}
	b.click("#tab-diagram")
	b.do(chromedp.EmulateViewport(1280, 800))
	b.waitFor("the words are next to the lanes again", `[...document.getElementById("diagram").shadowRoot.querySelectorAll("text.text")].some(e => e.textContent.includes("creates claim default/more"))`)
	b.checkConsole()
}

// The page loads the file that its link Save downloads, and shows the same world. A client of the API
// has changed the world, too.
func TestPageLoadsWhatItSaved(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config")
	b := browse(t, "--by-hand", "--kubeconfig", config)
	b.execute("create class slow binding=WaitForFirstConsumer")
	b.execute("create claim data 64Mi")
	createWithKubeconfig(t, config, "/api/v1/namespaces/default/persistentvolumeclaims",
		`{"metadata":{"name":"other"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"32Mi"}}}}`)
	b.waitForText("#objects", "claim default/other")
	b.execute("hold provisioner/cache persistentvolumeclaims")
	b.execute("step 9")
	b.execute("create pod web data on=node-1")
	b.waitForText("#message", "creates pod default/web")
	const state = `["objects", "next", "story", "targets"].map(id => document.getElementById(id).innerText).join("\n")`
	read := func(expression string) string {
		t.Helper()
		text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](expression, chromedp.EvalAwaitPromise))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	b.click("#tab-story")
	b.waitForText("#story", "> create pod web data on=node-1")
	want := read(state)
	saved := filepath.Join(t.TempDir(), "session.txt")
	if err := os.WriteFile(saved, []byte(read(`fetch(document.getElementById("save").href).then(reply => reply.text())`)), 0o600); err != nil {
		t.Fatal(err)
	}
	b.click("#reset")
	b.waitForText("#message", "reset")
	b.do(chromedp.SetUploadFiles(chromedp.CSS("#load input"), []string{saved}))
	b.waitForText("#message", "loaded 6 operations")
	b.waitForText("#story", "> create pod web data on=node-1")
	if got := read(state); got != want {
		t.Errorf("after Load the page shows\n%s\nwant\n%s", got, want)
	}
	b.click("#rest")
	b.waitForText("#objects .stale", "not in the cache of provisioner")
	if err := os.WriteFile(saved, []byte("nonsense now\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.do(chromedp.SetUploadFiles(chromedp.CSS("#load input"), []string{saved}))
	b.waitForText("#message.error", "nonsense now")
	b.waitForText("#objects", "pod default/web")
	b.checkConsole()
}

var configLine = regexp.MustCompile(`(?m)^\s*(server|token): (\S+)$`)

// createWithKubeconfig sends an object to the API server of a kubeconfig.
func createWithKubeconfig(t *testing.T, config, path, object string) {
	t.Helper()
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	value := map[string]string{}
	for _, line := range configLine.FindAllStringSubmatch(string(text), -1) {
		value[line[1]] = line[2]
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, value["server"]+path, strings.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+value["token"])
	r.Header.Set("Content-Type", "application/json")
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // a test on this machine
	reply, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusCreated {
		answer, _ := io.ReadAll(reply.Body)
		t.Fatalf("%s: %s", reply.Status, answer)
	}
}

func TestPageShowsWhyAPodIsPending(t *testing.T) {
	b := browse(t, "--by-hand")
	b.execute("create claim data 64Mi")
	b.execute("create pod first data on=node-1")
	b.click("#rest")
	b.waitForText("#objects", "Running on node-1")
	b.execute("create pod second data on=node-2")
	b.click("#rest")
	b.waitForText("#objects .reason", "FailedAttachVolume: Multi-Attach error")
	b.screenshot("reason-light", 1280, 800, "light")
	b.checkConsole()
}

func TestNextStepsAreToldApart(t *testing.T) {
	b := browse(t, "--by-hand")
	for _, op := range []string{"create claim a 64Mi", "create claim b 64Mi", "hold provisioner", "settle", "release provisioner"} {
		b.execute(op)
		b.waitFor(op+" is done", fmt.Sprintf(`document.getElementById("story").textContent.includes(%q)`, "> "+op))
	}
	b.execute("step 6")
	b.waitForText("#next .task", "provisioner/claims#2")
	b.click(`[data-key="step provisioner/claims#2"]`)
	b.waitForText("#message", "provisioner/claims")
	b.checkConsole()
}

func TestPageShowsALiveWorld(t *testing.T) {
	b := browse(t, "--devices", "array")
	b.waitForText("#live", "volsim serve --by-hand")
	b.waitForText("#objects", "node node-1")
	b.click(`[data-key="stop kubelet(node-1)"]`)
	b.waitForText("#targets", "kubelet(node-1) is down")
	b.execute("create claim data 64Mi")
	b.waitForText("#objects", "claim default/data")
	b.screenshot("live-light", 1280, 800, "light")
	b.screenshot("live-narrow-dark", 420, 900, "dark")
	b.click(`[data-key="start kubelet(node-1)"]`)
	b.waitFor("the kubelet runs", `document.querySelector('[data-key="stop kubelet(node-1)"]') !== null`)
	b.checkConsole()
}
