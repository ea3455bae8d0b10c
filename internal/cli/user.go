package cli

import (
	"context"

	"galgo"
	"galgo/client"
)

func userCommand() *command {
	return &command{
		use: "user", aliases: []string{"u"}, short: "Users and what they may do", connects: true,
		subs: []*command{
			userCreateCommand(), userPermissionsCommand(),
			{use: "list", aliases: []string{"l"}, short: "List the users", args: exactly(0), connects: true, run: userList},
			{use: "get USER", aliases: []string{"g"}, short: "Show a user and what it may do", args: exactly(1), connects: true, run: userGet},
			{use: "delete USER", aliases: []string{"d"}, short: "Delete a user with its tokens, and end its sessions", args: exactly(1), connects: true, run: userDelete},
			{use: "name USER NAME", aliases: []string{"n"}, short: "Rename a user", args: exactly(2), connects: true, run: userName},
			{use: "status USER active|inactive", aliases: []string{"s"}, short: "Say whether a user may sign in", args: exactly(2), connects: true, run: userStatus},
			{
				use: "password USER [CURRENT NEW]", aliases: []string{"pwd"}, short: "Change the password of a user", args: between(1, 3), connects: true,
				long: "Change the password of a user, which takes the present one. Passwords that are not\ngiven are asked for.",
				run:  userPassword,
			},
		},
	}
}

func userCreateCommand() *command {
	var rights rightsFlags
	status := "active"
	return &command{
		use: "create USERNAME [PASSWORD]", aliases: []string{"c"}, short: "Create a user", args: between(1, 2), connects: true,
		long:    "Create a user. A password that is not given is asked for.\n\n" + rightsHelp,
		example: "  galgo user create ann -g r_str,p_msg\n  galgo user create svc secret -s 1:r_str#2:s_msg",
		flags: func(fs *flagSet) {
			fs.StringVarP(&status, "user-status", "u", status, "active or inactive: whether the user may sign in")
			rights.register(fs)
		},
		run: func(ctx context.Context, e *env, args []string) error {
			spec := client.UserSpec{Name: args[0]}
			parsed, err := parseStatus(status)
			if err != nil {
				return err
			}
			spec.Inactive = parsed == galgo.UserInactive
			if spec.Permissions, err = rights.permissions(); err != nil {
				return err
			}
			if spec.Password, err = e.passwordArg(args, 1, "Password for "+args[0]); err != nil {
				return err
			}
			return e.with(ctx, func(ctx context.Context, c *client.Client) error {
				u, err := c.CreateUser(ctx, spec)
				if err != nil {
					return err
				}
				return printUser(e, u)
			})
		},
	}
}

func userPermissionsCommand() *command {
	var rights rightsFlags
	return &command{
		use: "permissions USER", aliases: []string{"p"}, short: "Replace what a user may do", args: exactly(1), connects: true,
		long:    "Replace what a user may do by what the flags say; without any it may do nothing.\n\n" + rightsHelp,
		example: "  galgo user permissions ann -g r_str,p_msg -s 1:m_str",
		flags:   rights.register,
		run: func(ctx context.Context, e *env, args []string) error {
			p, err := rights.permissions()
			if err != nil {
				return err
			}
			return e.on(ctx, "USER", args[0], "The permissions of user %s are replaced.", func(ctx context.Context, c *client.Client, id galgo.Identifier) error {
				return c.UpdatePermissions(ctx, id, p)
			})
		},
	}
}

func parseStatus(s string) (galgo.UserStatus, error) {
	for _, status := range []galgo.UserStatus{galgo.UserActive, galgo.UserInactive} {
		if s == status.String() {
			return status, nil
		}
	}
	return 0, usagef("status %q: want active or inactive", s)
}

// passwordArg is an argument, or asked for where there is none.
func (e *env) passwordArg(args []string, at int, prompt string) (string, error) {
	if at < len(args) {
		return args[at], nil
	}
	return e.ask(prompt)
}

type userView struct {
	ID          uint32           `json:"id"`
	CreatedAt   string           `json:"created_at"`
	Status      string           `json:"status"`
	Username    string           `json:"username"`
	Permissions *permissionsView `json:"permissions,omitempty"`
}

func userOf(u client.User) userView {
	return userView{ID: u.ID, CreatedAt: timeOf(u.CreatedAt), Status: u.Status.String(), Username: u.Name}
}

func printUser(e *env, d client.UserDetails) error {
	v := userOf(d.User)
	v.Permissions = permissionsOf(d.Permissions)
	t := table{{"Property", "Value"}}
	t.add("ID", v.ID)
	t.add("Created", v.CreatedAt)
	t.add("Status", v.Status)
	t.add("Username", v.Username)
	v.Permissions.addTo(&t)
	return e.print(v, t)
}

func userList(ctx context.Context, e *env, _ []string) error {
	return e.with(ctx, func(ctx context.Context, c *client.Client) error {
		users, err := c.Users(ctx)
		if err != nil {
			return err
		}
		all, t := []userView{}, table{{"ID", "Created", "Status", "Username"}}
		for _, u := range users {
			v := userOf(u)
			all = append(all, v)
			t.add(v.ID, v.CreatedAt, v.Status, v.Username)
		}
		return e.print(all, t)
	})
}

func userGet(ctx context.Context, e *env, args []string) error {
	id, err := parseID("USER", args[0])
	if err != nil {
		return err
	}
	return e.with(ctx, func(ctx context.Context, c *client.Client) error {
		u, err := c.User(ctx, id)
		if err != nil {
			return err
		}
		return printUser(e, u)
	})
}

func userDelete(ctx context.Context, e *env, args []string) error {
	return e.on(ctx, "USER", args[0], "User %s is deleted.", func(ctx context.Context, c *client.Client, id galgo.Identifier) error {
		return c.DeleteUser(ctx, id)
	})
}

func userName(ctx context.Context, e *env, args []string) error {
	return e.on(ctx, "USER", args[0], "User %s is renamed.", func(ctx context.Context, c *client.Client, id galgo.Identifier) error {
		return c.UpdateUser(ctx, id, client.UserUpdate{Name: args[1]})
	})
}

func userStatus(ctx context.Context, e *env, args []string) error {
	status, err := parseStatus(args[1])
	if err != nil {
		return err
	}
	return e.on(ctx, "USER", args[0], "User %s is "+status.String()+".", func(ctx context.Context, c *client.Client, id galgo.Identifier) error {
		return c.UpdateUser(ctx, id, client.UserUpdate{Status: status})
	})
}

func userPassword(ctx context.Context, e *env, args []string) error {
	current, err := e.passwordArg(args, 1, "Present password of "+args[0])
	if err != nil {
		return err
	}
	replacement, err := e.passwordArg(args, 2, "New password of "+args[0])
	if err != nil {
		return err
	}
	return e.on(ctx, "USER", args[0], "The password of user %s is changed.", func(ctx context.Context, c *client.Client, id galgo.Identifier) error {
		return c.ChangePassword(ctx, id, current, replacement)
	})
}
