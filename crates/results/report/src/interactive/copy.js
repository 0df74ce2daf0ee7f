// A button beside each command line, which copies it.

for (const command of document.querySelectorAll("pre.command")) {
  const text = command.textContent;
  const button = Object.assign(document.createElement("button"), { type: "button", textContent: "copy" });
  const said = (word) => {
    button.textContent = word;
    setTimeout(() => { button.textContent = "copy"; }, 2000);
  };
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      said("copied");
    } catch {
      // Without a clipboard the text is chosen, for the reader's own keys.
      getSelection().selectAllChildren(command.querySelector("code"));
      said("chosen");
    }
  });
  command.append(button);
}
