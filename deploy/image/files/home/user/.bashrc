case $- in *i*) ;; *) return ;; esac # the rest is for people

HISTCONTROL=ignoreboth
HISTSIZE=10000
shopt -s histappend checkwinsize
PS1='\[\e[1;32m\]\u@\h\[\e[0m\]:\[\e[1;34m\]\w\[\e[0m\]\$ '

alias ls='ls --color=auto' ll='ls -lh' la='ls -lAh' grep='grep --color=auto' vim=vim.tiny vi=vim.tiny

. /usr/share/bash-completion/bash_completion
