package freeport

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// takes makes this binary a process that takes so many ports, prints them and stays
// until its input ends.
const takes = "FREEPORT_TAKES"

func TestMain(m *testing.M) {
	if n, err := strconv.Atoi(os.Getenv(takes)); err == nil {
		ports, err := Take(n)
		if err != nil {
			os.Exit(1)
		}
		for _, p := range ports {
			os.Stdout.WriteString(strconv.Itoa(p) + " ")
		}
		os.Stdout.WriteString("\n")
		bufio.NewReader(os.Stdin).ReadString('\n')
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Processes that run at once are given different ports, of which the system gives none
// to who asks for any.
func TestNoTwoAreGivenOnePort(t *testing.T) {
	const processes, each = 4, 3 * blockSize / 2 // of two blocks each
	given := map[int]bool{}
	take := func(ports []int) {
		if len(ports) != each {
			t.Errorf("%d ports of %d", len(ports), each)
		}
		for _, p := range ports {
			if given[p] || p < lowest || p >= 32768 {
				t.Errorf("port %d: given before %v", p, given[p])
			}
			given[p] = true
		}
	}
	for range processes {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), takes+"="+strconv.Itoa(each))
		stay, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Wait()
		defer stay.Close()
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		var ports []int
		for _, f := range strings.Fields(line) {
			p, err := strconv.Atoi(f)
			if err != nil {
				t.Fatal(err)
			}
			ports = append(ports, p)
		}
		take(ports)
	}
	ports, err := Take(each)
	if err != nil {
		t.Fatal(err)
	}
	take(ports)
}

// A port on which somebody listens already is not given, though its block is ours.
func TestPortsInUseArePassedOver(t *testing.T) {
	for {
		if _, err := Take(1); err != nil {
			t.Fatal(err)
		}
		if owned.next < owned.end {
			break
		}
	}
	used := owned.next
	l, err := net.Listen("tcp", Loopback(used))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	next, err := Take(1)
	if err != nil || next[0] == used {
		t.Errorf("given %v, %v, where %d is in use", next, err, used)
	}
}
