package main

import (
	"fmt"
	"strings"
)

// A code is a parsed code cell: GoNB commands, followed by Go.
type code struct {
	number   int // execution count
	commands []command
	args     []string // of the program
	decls    []declaration
	// main is the body of the cell's main function, with its braces, or "". mainLine is its first
	// line.
	main     string
	mainLine int
	hasGo    bool // it contains more than commands
	err      error
}

// A command is a line that is not Go: a shell command or a setting.
type command struct {
	line   int
	shell  bool
	module bool // run in the folder of the module instead of the notebook
	text   string
}

// mainHead is GoNB's replacement for a line %%.
const mainHead = "func main() { flag.Parse()"

// parseCell parses a cell like GoNB: first the commands, wherever they are; the rest is
// declarations and an optional main function. Lines below a line %% are its body. An error is
// stored for when the cell runs.
func parseCell(number int, source string) *code {
	c := &code{number: number}
	lines := strings.Split(source, "\n")
	var inMain bool
	for i := 0; i < len(lines); i++ {
		line := strings.TrimPrefix(lines[i], "//gonb:")
		if len(line) < 2 || (line[0] != '%' && line[0] != '!') {
			if strings.HasPrefix(line, "package") {
				lines[i] = "" // GoNB removes all such lines
			}
			c.hasGo = c.hasGo || strings.TrimSpace(lines[i]) != ""
			continue
		}
		first := i
		lines[first] = ""
		for strings.HasSuffix(line, `\`) && i+1 < len(lines) {
			i++
			line = strings.TrimSuffix(line, `\`) + " " + lines[i]
			lines[i] = ""
		}
		if words, ok := mainLine(line); ok {
			c.args, c.hasGo = words, true
			if !inMain {
				lines[first] = mainHead
			}
			inMain = true
			continue
		}
		cmd, err := parseCommand(first+1, line)
		if err != nil {
			c.err = err
			return c
		}
		if words, ok := cmd.setting("args"); ok {
			c.args = words
			continue
		}
		c.commands = append(c.commands, cmd)
	}
	if !c.hasGo {
		return c
	}
	if inMain {
		lines = append(lines, "}")
	}
	c.decls, c.main, c.mainLine, c.err = parseGo(number, "package main;"+strings.Join(lines, "\n"))
	return c
}

// mainLine reports whether a line begins the main function, and returns the program's arguments.
func mainLine(line string) (args []string, ok bool) {
	words := strings.Fields(line)
	if words[0] == "%%" || words[0] == "%main" {
		return words[1:], true
	}
	return nil, false
}

// settings are the supported commands besides shell commands.
var settings = map[string]bool{"args": true, "env": true, "autoget": true, "noautoget": true}

func parseCommand(number int, line string) (command, error) {
	cmd := command{line: number, shell: line[0] == '!', text: strings.TrimLeft(line[1:], " ")}
	if cmd.shell {
		cmd.text, cmd.module = strings.CutPrefix(cmd.text, "*")
		return cmd, nil
	}
	words := strings.Fields(cmd.text)
	if len(words) == 0 || !settings[words[0]] {
		return cmd, fmt.Errorf("line %d: unsupported command %q (have %%%%, %%main, %%args, %%env, !, !*)",
			number, line)
	}
	return cmd, nil
}

// setting returns the words of a setting, if the command is the setting of that name.
func (c command) setting(name string) (words []string, ok bool) {
	if c.shell {
		return nil, false
	}
	words = strings.Fields(c.text)
	return words[1:], words[0] == name
}

// env returns the variable that a %env command sets.
func (c command) env() (name, value string, err error) {
	words, _ := c.setting("env")
	if len(words) == 1 {
		if name, value, ok := strings.Cut(words[0], "="); ok {
			return name, strings.Trim(value, `"`), nil
		}
	}
	if len(words) != 2 {
		return "", "", fmt.Errorf("line %d: invalid %%env: want a name and a value", c.line)
	}
	return words[0], strings.Trim(words[1], `"`), nil
}
