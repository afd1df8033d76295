package volsim_test

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A retiredTerm is an expression that the project no longer uses, and the term that took its place.
type retiredTerm struct {
	pattern *regexp.Regexp
	instead string
}

func retired(pattern, instead string) retiredTerm {
	return retiredTerm{regexp.MustCompile(`(?i)\b(?:` + pattern + `)\b`), instead}
}

// retiredProse lists expressions that no comment, document or command output may contain. CONTRIBUTING.md has the glossary.
var retiredProse = []retiredTerm{
	retired(`strands?`, "task"),
	retired(`misfortunes?|befalls?|befell`, "event, fault"),
	retired(`hearsay`, "cache"),
	retired(`somebody|someone|nobody|whoever|anybody`, "the code that does it: the subject is not a person"),
	retired(`(is|are|was|be) told`, "receives, takes, is notified"),
	retired(`tells whether`, "reports whether"),
	retired(`anew`, "again"),
	retired(`for ever`, "indefinitely"),
	retired(`beside`, "besides, also, next to"),
	retired(`what (came|comes|became|becomes) of`, "result"),
	retired(`of (its|their) own hand|by its own hand`, "itself"),
	retired(`(is|are) to be`, "must be, will be"),
	retired(`ordinary course`, "default order"),
	retired(`what is (still )?owed`, "pending"),
}

// retiredNames lists words that no identifier may contain, in lower case, as one word of a camel-case name.
var retiredNames = map[string]string{
	"strand": "task", "misfortune": "event", "misfortunes": "events", "befall": "inject", "foresee": "event source",
	"hearsay": "cache knowledge", "unheard": "unseen", "anew": "again", "beside": "next to",
	"debt": "pending", "debts": "pending", "owed": "pending", "enrolled": "preRegistered", "survey": "metadata watcher",
	"amend": "update", "noting": "recording", "ails": "degraded", "whoever": "the code that does it",
	"somebody": "the code that does it", "nobody": "none",
}

// TestCommentsUseTheTermsOfTheField checks the comments of all code that is not a lesson.
func TestCommentsUseTheTermsOfTheField(t *testing.T) {
	for _, s := range allSources(t) {
		if s.folder == "." || strings.HasPrefix(s.folder, "examples/") {
			continue
		}
		for _, group := range s.file.Comments {
			checkProse(t, s.path, group.Text())
		}
	}
}

// TestDocumentsUseTheTermsOfTheField checks the documents. The glossary may name what is retired.
func TestDocumentsUseTheTermsOfTheField(t *testing.T) {
	files, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, "README.md", "ARCHITECTURE.md", "SECURITY.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		checkProse(t, file, string(text))
	}
}

// TestOutputUsesTheTermsOfTheField checks the texts that commands, stories and the test modules print.
func TestOutputUsesTheTermsOfTheField(t *testing.T) {
	for _, s := range allSources(t) {
		first, _, _ := strings.Cut(s.folder, "/")
		if first != "test" && (s.test || first != "cmd" && first != "sim" && first != "explore" && first != "simtest") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				if text, err := strconv.Unquote(literal.Value); err == nil {
					checkProse(t, s.path, text)
				}
			}
			return true
		})
	}
}

func checkProse(t *testing.T, where, text string) {
	t.Helper()
	text = strings.Join(strings.Fields(text), " ")
	for _, term := range retiredProse {
		if at := term.pattern.FindStringIndex(text); at != nil {
			t.Errorf("%s: %q is retired; write %s: …%s…", where, text[at[0]:at[1]], term.instead, around(text, at))
		}
	}
}

// around returns the words near a match.
func around(text string, at []int) string {
	const reach = 40
	return strings.ToValidUTF8(text[max(at[0]-reach, 0):min(at[1]+reach, len(text))], "")
}

// TestNamesUseTheTermsOfTheField checks each name in the code.
func TestNamesUseTheTermsOfTheField(t *testing.T) {
	for _, s := range allSources(t) {
		seen := map[string]bool{}
		ast.Inspect(s.file, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok || seen[id.Name] {
				return true
			}
			seen[id.Name] = true
			for _, word := range camelWords(id.Name) {
				if instead, ok := retiredNames[word]; ok && s.folder != "." {
					t.Errorf("%s: the word %q in %s is retired: write %s", s.path, word, id.Name, instead)
				}
			}
			return true
		})
	}
}

var camelWord = regexp.MustCompile(`[A-Z]+[a-z0-9]*|[a-z0-9]+`)

// camelWords returns the words of a camel-case name in lower case.
func camelWords(name string) []string {
	words := camelWord.FindAllString(name, -1)
	for i := range words {
		words[i] = strings.ToLower(words[i])
	}
	return words
}

// TestBooleanFunctionsReportWhether checks the docstring of each exported function and method whose only result is a bool.
func TestBooleanFunctionsReportWhether(t *testing.T) {
	for _, s := range allSources(t) {
		if s.test || s.file.Name.Name == "main" {
			continue
		}
		for _, decl := range s.file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || !f.Name.IsExported() || f.Doc == nil || !returnsBool(f) {
				continue
			}
			if !strings.Contains(strings.Join(strings.Fields(f.Doc.Text()), " "), "reports whether") {
				t.Errorf("%s: the docstring of %s does not say that it reports whether …", s.path, f.Name.Name)
			}
		}
	}
}

func returnsBool(f *ast.FuncDecl) bool {
	if f.Type.Results == nil || len(f.Type.Results.List) != 1 || len(f.Type.Results.List[0].Names) > 1 {
		return false
	}
	id, ok := f.Type.Results.List[0].Type.(*ast.Ident)
	return ok && id.Name == "bool"
}
