package main

import (
	"fmt"
	"strings"
)

// code is what a code cell says: commands of GoNB's, then Go.
type code struct {
	number   int // the execution count
	commands []command
	args     []string // of the program
	decls    []declaration
	// main is the block of the cell's main function, with its braces; empty if there is none. mainLine is where it begins.
	main     string
	mainLine int
	hasGo    bool // there is something besides commands
	err      error
}

// command is a line that is not Go: a shell command, or a setting.
type command struct {
	line   int
	shell  bool
	module bool // in the folder of the module, not of the notebook
	text   string
}

// mainHead is what GoNB writes in place of a line %%.
const mainHead = "func main() { flag.Parse()"

// parseCell takes a cell apart, as GoNB does: commands first, wherever they stand; the rest is declarations, and the main
// function if there is one. What is below a line %% is the block of it. An error is kept for when it is the cell's turn.
func parseCell(number int, source string) *code {
	c := &code{number: number}
	lines := strings.Split(source, "\n")
	var inMain bool
	for i := 0; i < len(lines); i++ {
		line := strings.TrimPrefix(lines[i], "//gonb:")
		if len(line) < 2 || (line[0] != '%' && line[0] != '!') {
			if strings.HasPrefix(line, "package") {
				lines[i] = "" // GoNB leaves out every such line
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

// mainLine is whether a line begins the main function, and the arguments it gives the program.
func mainLine(line string) (args []string, ok bool) {
	words := strings.Fields(line)
	if words[0] == "%%" || words[0] == "%main" {
		return words[1:], true
	}
	return nil, false
}

// settings are the commands besides shell commands that are followed; all others are of GoNB alone.
var settings = map[string]bool{"args": true, "env": true, "autoget": true, "noautoget": true}

func parseCommand(number int, line string) (command, error) {
	cmd := command{line: number, shell: line[0] == '!', text: strings.TrimLeft(line[1:], " ")}
	if cmd.shell {
		cmd.text, cmd.module = strings.CutPrefix(cmd.text, "*")
		return cmd, nil
	}
	words := strings.Fields(cmd.text)
	if len(words) == 0 || !settings[words[0]] {
		return cmd, fmt.Errorf("line %d: %s is not among the commands that nbrun follows: %%%%, %%main, %%args, %%env, !, !*", number, line)
	}
	return cmd, nil
}

// setting is the words of a setting of this name.
func (c command) setting(name string) (words []string, ok bool) {
	if c.shell {
		return nil, false
	}
	words = strings.Fields(c.text)
	return words[1:], words[0] == name
}

// env is the variable that a setting sets.
func (c command) env() (name, value string, err error) {
	words, _ := c.setting("env")
	if len(words) == 1 {
		if name, value, ok := strings.Cut(words[0], "="); ok {
			return name, strings.Trim(value, `"`), nil
		}
	}
	if len(words) != 2 {
		return "", "", fmt.Errorf("line %d: %%env takes a name and a value", c.line)
	}
	return words[0], strings.Trim(words[1], `"`), nil
}
